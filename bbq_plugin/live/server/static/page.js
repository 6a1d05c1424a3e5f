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

  // A table or chart as a PNG: its markup with our own style, light, in an image drawn here.
  const styles = () => [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules])
    .filter((rule) => !(rule.media && rule.media.mediaText.includes("dark")))
    .map((rule) => rule.cssText).join("\n");

  const draw = async (part, name) => {
    const { width, height } = part.getBoundingClientRect();
    const copy = part.cloneNode(true);
    copy.querySelectorAll(".get, .pages, .filter").forEach((one) => one.remove());
    copy.querySelectorAll(".scroll").forEach((one) => one.removeAttribute("tabindex"));
    const root = document.createElementNS("http://www.w3.org/1999/xhtml", "div");
    const style = document.createElement("style");
    style.textContent = `${styles()} .png { font: 16px/1.55 Inter, "Helvetica Neue", Helvetica, Arial, "Liberation Sans", sans-serif; background: #fff; color: var(--ink); } .png > * { margin: 0 !important; border: 0 !important; }`;
    root.className = "png";
    root.append(style, copy);
    const markup = new XMLSerializer().serializeToString(root);
    const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${Math.ceil(width)}" height="${Math.ceil(height)}"><foreignObject width="100%" height="100%">${markup}</foreignObject></svg>`;
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = 2 * Math.ceil(width);
    canvas.height = 2 * Math.ceil(height);
    const pen = canvas.getContext("2d");
    pen.fillStyle = "#fff";
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.scale(2, 2);
    pen.drawImage(image, 0, 0);
    const link = document.createElement("a");
    link.href = canvas.toDataURL("image/png");
    link.download = `bbq-${name}.png`;
    link.click();
  };

  document.body.classList.add("js");
  document.addEventListener("click", (event) => {
    const asked = event.target.closest("[data-png]");
    if (asked) draw(document.getElementById(asked.dataset.png), asked.dataset.file);
  });

  if (document.body.hasAttribute("data-still")) {
    say("still");
    return;
  }
  remember(document);
  document.addEventListener("visibilitychange", renew);
  const source = new EventSource("/live");
  source.onopen = () => say("live");
  source.onerror = () => say("offline");
  source.onmessage = (message) => { wanted = message.data; renew(); };
})();
