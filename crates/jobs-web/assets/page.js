// Refreshing, selecting and keys. Without it every page works all the same.
"use strict";
(() => {
  const every = 5000;
  const by = (selector, within = document) => [...within.querySelectorAll(selector)];
  const picks = () => by("input[name=job][type=checkbox]");
  const status = document.getElementById("refreshing");
  let paused = false;
  let last = null; // the checkbox of the last click, for ranges

  // --- keys, told in a dialog

  const keys = [
    ["j, k", "next, previous job"],
    ["x", "select the job"],
    ["Enter", "open the job"],
    ["/", "filter"],
    ["r", "refresh now"],
    ["p", "stop or start refreshing"],
    ["?", "these keys"],
  ];
  const dialog = document.createElement("dialog");
  dialog.id = "keys";
  dialog.setAttribute("aria-labelledby", "keys-title");
  const title = document.createElement("h2");
  title.id = "keys-title";
  title.textContent = "Keys";
  const rows = document.createElement("dl");
  for (const [key, does] of keys) {
    const dt = document.createElement("dt");
    dt.textContent = key;
    const dd = document.createElement("dd");
    dd.textContent = does;
    rows.append(dt, dd);
  }
  const close = document.createElement("form");
  close.method = "dialog";
  const button = document.createElement("button");
  button.textContent = "Close";
  close.append(button);
  dialog.append(title, rows, close);
  document.body.append(dialog);

  // --- selecting

  const count = () => {
    const chosen = picks().filter((pick) => pick.checked).length;
    const said = document.getElementById("selected");
    if (said) said.textContent = chosen === 0 ? "" : `${chosen} selected`;
    const all = document.getElementById("pick-all");
    if (all) {
      all.checked = chosen > 0 && chosen === picks().length;
      all.indeterminate = chosen > 0 && !all.checked;
    }
    return chosen;
  };

  const addPickAll = () => {
    const head = document.querySelector("#jobs th.pick");
    if (!head || head.querySelector("input")) return;
    const all = document.createElement("input");
    all.type = "checkbox";
    all.id = "pick-all";
    all.setAttribute("aria-label", "Select all on this page");
    head.replaceChildren(all);
  };

  document.addEventListener("click", (event) => {
    const pick = event.target;
    if (!(pick instanceof HTMLInputElement) || pick.name !== "job") return;
    if (event.shiftKey && last && last.isConnected) {
      const all = picks();
      const [from, to] = [all.indexOf(last), all.indexOf(pick)].sort((a, b) => a - b);
      for (const one of all.slice(from, to + 1)) one.checked = pick.checked;
    }
    last = pick;
  });
  document.addEventListener("change", (event) => {
    if (event.target.id === "pick-all") for (const pick of picks()) pick.checked = event.target.checked;
    count();
    say();
  });

  // --- refreshing

  const busy = () => {
    const open = document.querySelector("dialog[open]") !== null;
    const here = document.activeElement;
    const typing = here instanceof HTMLInputElement && here.type !== "checkbox" && here.closest("[data-live]") !== null;
    return paused || document.hidden || open || typing || count() > 0;
  };

  const say = (words) => {
    if (!document.querySelector("[data-live]")) return;
    const why = paused ? "Refreshing is stopped: p starts it." : count() > 0 ? "Refreshing waits while jobs are selected." : "";
    status.textContent = words || why || "Refreshed every 5 s. ? shows the keys.";
    status.classList.toggle("bad", Boolean(words));
  };

  const refresh = async () => {
    const live = document.querySelector("[data-live]");
    if (!live) return;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
      if (!answer.ok) throw new Error(`${answer.status}`);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.querySelector("[data-live]");
      if (!fresh) throw new Error("another page");
      if (busy()) return; // something was begun meanwhile
      const focused = live.contains(document.activeElement) ? document.activeElement.id : "";
      const opened = by("details", live).map((one) => one.open);
      const title = document.querySelector("main h1");
      const newTitle = page.querySelector("main h1");
      if (title && newTitle) title.replaceWith(document.adoptNode(newTitle));
      live.replaceWith(document.adoptNode(fresh));
      by("details", fresh).forEach((one, place) => { one.open = Boolean(opened[place]); });
      addPickAll();
      if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
      document.documentElement.dataset.refreshed = String(Number(document.documentElement.dataset.refreshed || 0) + 1);
      say();
    } catch {
      say(`Not refreshed since ${new Date().toISOString().slice(11, 19)}: what is shown is old.`);
    }
  };

  const turn = async () => {
    if (!busy()) await refresh();
    setTimeout(turn, every);
  };

  // --- what keys do

  const move = (by_) => {
    const links = by("#jobs a.job");
    if (links.length === 0) return;
    const here = links.findIndex((link) => link.closest("tr").contains(document.activeElement));
    const next = here < 0 ? 0 : Math.min(Math.max(here + by_, 0), links.length - 1);
    links[next].focus();
  };

  document.addEventListener("keydown", (event) => {
    const here = event.target;
    const typing = here instanceof HTMLInputElement && here.type !== "checkbox";
    if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const does = {
      j: () => move(1),
      k: () => move(-1),
      x: () => document.activeElement.closest("tr")?.querySelector("input[name=job]")?.click(),
      "/": () => document.querySelector("#filter input:not([type=hidden])")?.focus(),
      r: refresh,
      p: () => { paused = !paused; say(); },
      "?": () => dialog.showModal(),
    }[event.key];
    if (!does) return;
    event.preventDefault();
    does();
  });

  addPickAll();
  count();
  say();
  setTimeout(turn, every);
})();
