"use strict";
// Keeps the page as the server has it: hears that something is new, fetches this page again and
// puts in the parts that differ. Nothing of it is ever run: it is parsed, and scripts are not.
(() => {
  const PAUSE_MS = 400;
  const status = document.getElementById("status");
  const parts = new Map();
  let shown = document.body.dataset.number;
  let wanted = shown;
  let busy = false;

  const remember = (root) => {
    for (const part of root.querySelectorAll("[data-live]")) parts.set(part.id, part.outerHTML);
  };

  const ids = (root) => [...root.querySelectorAll("[data-live]")].map((part) => part.id).join();

  const say = (word) => {
    status.textContent = word;
    status.className = word;
  };

  const place = (part) => {
    const old = document.getElementById(part.id);
    if (!old || parts.get(part.id) === part.outerHTML) return;
    parts.set(part.id, part.outerHTML);
    const link = old.contains(document.activeElement) && document.activeElement.getAttribute("href");
    const moved = [...old.querySelectorAll(".scroll, .chart")].map((box) => box.scrollLeft);
    const open = [...old.querySelectorAll("details")].map((box) => box.open);
    const fresh = document.importNode(part, true);
    old.replaceWith(fresh);
    fresh.querySelectorAll(".scroll, .chart").forEach((box, i) => { box.scrollLeft = moved[i] || 0; });
    fresh.querySelectorAll("details").forEach((box, i) => { box.open = open[i] || false; });
    if (link) {
      const again = [...fresh.querySelectorAll("a")].find((a) => a.getAttribute("href") === link);
      if (again) again.focus({ preventScroll: true });
    }
  };

  const renew = async () => {
    if (busy || document.hidden) return;
    busy = true;
    try {
      while (wanted !== shown && !document.hidden) {
        const now = wanted;
        const answer = await fetch(location.href, { cache: "no-store", credentials: "same-origin" });
        if (answer.ok) {
          const next = new DOMParser().parseFromString(await answer.text(), "text/html");
          if (ids(next) === ids(document)) {
            for (const part of next.querySelectorAll("[data-live]")) place(part);
          } else {
            document.querySelector("main").replaceWith(document.importNode(next.querySelector("main"), true));
            remember(next);
          }
        }
        shown = now;
        await new Promise((go) => setTimeout(go, PAUSE_MS));
      }
    } catch (error) {
      say("offline");
    } finally {
      busy = false;
    }
  };

  remember(document);
  document.addEventListener("visibilitychange", renew);
  const source = new EventSource("/live");
  source.onopen = () => say("live");
  source.onerror = () => say("offline");
  source.onmessage = (message) => { wanted = message.data; renew(); };
})();
