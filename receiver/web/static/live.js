"use strict";
// Keeps a page up to date without losing the reader's place: every few seconds it fetches the page that is shown and
// brings the regions marked data-live up to date, node by node. So scroll, focus and what was unfolded stay as they
// are. A region in which somebody writes or selects text waits. Without this file the page has a link to reload it.
(() => {
  const live = document.getElementById("live");
  const updates = document.getElementById("updates");
  if (!live || !updates) return;
  const every = Number(live.dataset.every) * 1000;
  const edited = new WeakSet();
  let timer = 0;
  let paused = false;
  let asking = false;
  let last = Date.now();

  const state = document.createElement("span");
  state.setAttribute("role", "status");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet";
  const reload = updates.querySelector("a");
  updates.replaceChildren(state, button);

  const clock = () => `${new Date().toISOString().slice(11, 19)} UTC`;

  function say(words, { wrong = false, link = false } = {}) {
    if (state.textContent !== words) state.textContent = words;
    updates.classList.toggle("bad", wrong);
    if (!reload || link === reload.isConnected) return;
    if (link) updates.append(reload);
    else reload.remove();
  }

  const key = (node) => (node.nodeType === 1 ? node.id || node.dataset.key || "" : "");

  function alike(old, fresh) {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || key(old) !== key(fresh)) return false;
    return old.nodeName !== "A" || old.getAttribute("href") === fresh.getAttribute("href");
  }

  function bring(old, fresh) {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeType !== 1) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    const mine = (name) => name === "open" && old.nodeName === "DETAILS"; // the reader unfolded it, or did not
    for (const { name } of [...old.attributes]) if (!mine(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) {
      if (!mine(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    bringChildren(old, fresh);
  }

  function bringChildren(old, fresh) {
    let at = old.firstChild;
    for (const next of [...fresh.childNodes]) {
      let found = at;
      while (found && !alike(found, next)) found = key(next) || next.nodeName === "A" ? found.nextSibling : null;
      if (!found) {
        old.insertBefore(document.importNode(next, true), at);
        continue;
      }
      while (at !== found) {
        const gone = at;
        at = at.nextSibling;
        gone.remove();
      }
      at = found.nextSibling;
      bring(found, next);
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  }

  function inUse(region) {
    const focused = document.activeElement;
    if (focused && region.contains(focused) && focused.closest("form")) return true;
    if ([...region.querySelectorAll("form")].some((form) => edited.has(form))) return true;
    const chosen = document.getSelection();
    return Boolean(chosen && !chosen.isCollapsed && chosen.containsNode(region, true));
  }

  function show(text) {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    if (!fresh.getElementById("live")) return false;
    let waits = false;
    for (const region of document.querySelectorAll("[data-live]")) {
      const next = fresh.getElementById(region.id);
      if (inUse(region)) waits = true;
      else if (next) bring(region, next);
    }
    if (document.title !== fresh.title) document.title = fresh.title;
    say(waits ? "What you write in or select waits for you; the rest is up to date." : `Updates every ${every / 1000} s.`);
    return true;
  }

  async function update() {
    if (asking || paused || document.hidden) return;
    asking = true;
    try {
      const stop = new AbortController();
      const late = setTimeout(() => stop.abort(), every);
      const answer = await fetch(location.href, { redirect: "manual", signal: stop.signal, cache: "no-store" });
      const text = answer.ok ? await answer.text() : "";
      clearTimeout(late);
      if (answer.type === "opaqueredirect" || answer.status === 401 || answer.status === 403) {
        clearInterval(timer);
        button.remove();
        say(`Updates stopped at ${clock()}: log in to read on.`, { wrong: true, link: true });
        return;
      }
      last = Date.now();
      if (!answer.ok) say(`Updates stopped: the server answers ${answer.status}. What you see is older.`, { wrong: true, link: true });
      else if (!paused && !show(text)) say("Updates stopped: the page is another one now.", { wrong: true, link: true });
    } catch {
      if (!updates.classList.contains("bad")) {
        say(`Updates stopped at ${clock()}: the server does not answer.`, { wrong: true, link: true });
      }
    } finally {
      asking = false;
    }
  }

  function pause(stops) {
    paused = stops;
    button.textContent = paused ? "Go on updating" : "Pause updates";
    say(paused ? `Paused at ${clock()}.` : `Updates every ${every / 1000} s.`);
    if (!paused) update();
  }

  button.addEventListener("click", () => pause(!paused));
  document.addEventListener("input", (event) => event.target.form && edited.add(event.target.form));
  document.addEventListener("reset", (event) => edited.delete(event.target));
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && Date.now() - last > every) update();
  });
  button.textContent = "Pause updates";
  say(`Updates every ${every / 1000} s.`);
  timer = setInterval(update, every);
})();
