/* What scrolls sideways can be reached with the keyboard. */
document$.subscribe(() => {
  document.querySelectorAll(".md-typeset__scrollwrap, .output, pre > code").forEach(node => {
    node.tabIndex = 0
  })
})
