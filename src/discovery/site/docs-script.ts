// What scripts add to the documentation: copy buttons, remembered tabs, search while typing, and the try-it form. Each
// function is sent to the browser as its source text, so it may use only the other functions of this file and `findEntries`.

import { findEntries, type SearchEntry } from "./search.ts";

export function addCopyButtons(): void {
  for (const block of document.querySelectorAll<HTMLElement>("pre")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", () => {
      void navigator.clipboard
        .writeText(block.querySelector("code")?.textContent ?? "")
        .then(() => {
          button.textContent = "Copied";
          setTimeout(() => (button.textContent = "Copy"), 1500);
        });
    });
    const frame = document.createElement("div");
    frame.className = "code-frame";
    block.replaceWith(frame);
    frame.append(block, button);
  }
}

/** Choosing a tab chooses it in every example, on every page. */
export function rememberTabs(): void {
  const inputs = [...document.querySelectorAll<HTMLInputElement>(".tabs input")];
  const choose = (label: string): void => {
    for (const input of inputs) if (input.value === label) input.checked = true;
  };
  for (const input of inputs)
    input.addEventListener("change", () => {
      localStorage.setItem("docs-tab", input.value);
      choose(input.value);
    });
  const chosen = localStorage.getItem("docs-tab");
  if (chosen !== null) choose(chosen);
}

export function startSearch(): void {
  const form = document.querySelector<HTMLFormElement>(".docs-search");
  const input = form?.querySelector("input");
  const results = form?.querySelector<HTMLElement>(".docs-results");
  if (!form || !input || !results) return;
  let loading: Promise<SearchEntry[]> | undefined;
  const load = async (): Promise<SearchEntry[]> => {
    loading ??= fetch("/docs/search.json").then((response) => response.json());
    return loading;
  };
  const show = async (): Promise<void> => {
    const found = findEntries(await load(), input.value).slice(0, 8);
    const hasQuery = input.value.trim() !== "";
    results.hidden = !hasQuery;
    results.replaceChildren(
      ...(found.length === 0 ? [noResults()] : found.map((entry) => resultLink(entry))),
    );
  };
  input.addEventListener("focus", () => void load());
  input.addEventListener("input", () => void show());
  form.addEventListener("keydown", (event) => moveInResults(event, input, results));
  document.addEventListener("click", (event) => {
    if (event.target instanceof Node && !form.contains(event.target)) results.hidden = true;
  });
  document.addEventListener("keydown", (event) => {
    const isTyping =
      event.target instanceof Element && event.target.matches("input, textarea, select");
    const isShortcut =
      (event.key === "/" && !isTyping) || (event.key === "k" && (event.metaKey || event.ctrlKey));
    if (!isShortcut) return;
    event.preventDefault();
    input.focus();
  });
}

export function noResults(): HTMLElement {
  const text = document.createElement("p");
  text.textContent = "No page contains all of these words.";
  return text;
}

export function resultLink(entry: SearchEntry): HTMLElement {
  const link = document.createElement("a");
  link.href = entry.url;
  const title = document.createElement("strong");
  title.textContent = entry.title;
  const section = document.createElement("span");
  section.textContent = entry.section;
  link.append(title, section);
  return link;
}

export function moveInResults(
  event: KeyboardEvent,
  input: HTMLInputElement,
  results: HTMLElement,
): void {
  if (event.key === "Escape") {
    results.hidden = true;
    input.focus();
    return;
  }
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  if (step === 0 || results.hidden) return;
  event.preventDefault();
  const stops: HTMLElement[] = [input, ...results.querySelectorAll("a")];
  const at = stops.findIndex((stop) => stop === document.activeElement);
  stops[Math.min(stops.length - 1, Math.max(0, at + step))]?.focus();
}

export function startTryIt(): void {
  const form = document.querySelector<HTMLFormElement>(".try-it");
  if (form === null) return;
  form.hidden = false;
  const keyInput = form.querySelector<HTMLInputElement>("input[name=key]");
  if (keyInput !== null) keyInput.value = sessionStorage.getItem("docs-key") ?? "";
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (keyInput !== null) sessionStorage.setItem("docs-key", keyInput.value.trim());
    void sendTryIt(form);
  });
}

export async function sendTryIt(form: HTMLFormElement): Promise<void> {
  const status = document.createElement("p");
  const output = document.createElement("pre");
  output.tabIndex = 0;
  form.querySelector(".try-it-result")?.replaceChildren(status, output);
  status.textContent = "Sending …";
  const startedAt = performance.now();
  try {
    const { url, init } = tryItRequest(form);
    const response = await fetch(url, init);
    const text = await response.text();
    const milliseconds = Math.round(performance.now() - startedAt);
    const requestId = response.headers.get("x-request-id") ?? "";
    status.textContent = `Status ${response.status} in ${milliseconds} ms · ${requestId}`;
    output.textContent = prettyJson(text);
  } catch (error) {
    status.textContent = `The request failed. ${error instanceof Error ? error.message : ""}`;
  }
}

export function tryItRequest(form: HTMLFormElement): { url: string; init: RequestInit } {
  const { method = "GET", path = "", contentType, headers = "{}" } = form.dataset;
  const fields = [...new FormData(form)].map(([name, value]) => [name, String(value)] as const);
  const sent = new Headers(JSON.parse(headers));
  const query = new URLSearchParams();
  let url = path;
  let body: string | undefined;
  for (const [name, value] of fields) {
    const [place = "", field = ""] = name.split(/\.(.+)/);
    if (place === "path") url = url.replace(`{${field}}`, encodePath(value));
    if (place === "query" && value !== "") query.set(field, value);
    if (place === "key" && value.trim() !== "") sent.set("authorization", `Bearer ${value.trim()}`);
    if (place === "body") body = contentType === "application/json" ? value : formBody(value);
  }
  if (body !== undefined && contentType !== undefined) sent.set("content-type", contentType);
  return {
    url: query.size === 0 ? url : `${url}?${query.toString()}`,
    init: {
      method,
      headers: sent,
      credentials: "omit",
      ...(body === undefined ? {} : { body }),
    },
  };
}

/** The fields of a JSON object as a form. */
export function formBody(json: string): string {
  return new URLSearchParams(JSON.parse(json)).toString();
}

/** Model ids contain slashes, which stay. */
export function encodePath(value: string): string {
  return value.split("/").map(encodeURIComponent).join("/");
}

export function prettyJson(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
