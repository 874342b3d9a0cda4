// The script of the documentation: copy buttons, remembered tabs, search while typing, and the try-it form.

import { browserScript } from "../../http/pages/scripts/browser-script.ts";
import type { DocsResult } from "./site-search.ts";

export const DOCS_SCRIPT_SOURCE = browserScript([
  addCopyButtons,
  labelCells,
  rememberTabs,
  showCurrentLink,
  searchPages,
  noResults,
  resultLink,
  moveInResults,
  startSearch,
  encodePath,
  formBody,
  tryItAddress,
  tryItBody,
  prettyJson,
  sendTryIt,
  startTryIt,
  startDocs,
]);

function addCopyButtons(): void {
  const names: Readonly<Record<string, string>> = {
    console: "Shell",
    js: "JavaScript",
    json: "JSON",
    python: "Python",
    sh: "Shell",
    text: "",
    toml: "TOML",
    ts: "TypeScript",
  };
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
    const bar = document.createElement("div");
    const language = document.createElement("span");
    frame.className = "code-frame";
    bar.className = "code-bar";
    const name = block.dataset["language"] ?? "";
    language.textContent = names[name] ?? name;
    bar.append(language, button);
    block.replaceWith(frame);
    frame.append(bar, block);
  }
}

/** Names the cells of rows that are blocks on narrow screens. */
function labelCells(): void {
  for (const table of document.querySelectorAll<HTMLTableElement>(".stacked table")) {
    const names = [...table.querySelectorAll("thead th")].map(({ textContent }) => textContent);
    if (names.length < 3) continue;
    for (const cell of table.querySelectorAll<HTMLTableCellElement>("tbody td:not(:first-child)"))
      cell.dataset["label"] = names[cell.cellIndex] ?? "";
  }
}

/** Choosing a tab chooses it in every example, on every page. */
function rememberTabs(): void {
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

/** Scrolls the sidebar to the link of this page. */
function showCurrentLink(): void {
  const sidebar = document.querySelector<HTMLElement>(".docs-sidebar");
  const link = sidebar?.querySelector<HTMLElement>("li [aria-current]");
  if (!sidebar || !link) return;
  if (link.offsetTop > sidebar.clientHeight) sidebar.scrollTop = link.offsetTop - 200;
}

function startSearch(): void {
  const form = document.querySelector<HTMLFormElement>(".docs-search");
  const input = form?.querySelector("input");
  const results = form?.querySelector<HTMLElement>(".docs-results");
  if (!form || !input || !results) return;
  let searches = 0;
  const show = async (): Promise<void> => {
    const text = input.value.trim();
    const search = ++searches;
    const found = text === "" ? [] : await searchPages(text);
    // The reply to an earlier text must not be shown. Enter searches without this script.
    if (search !== searches || found === undefined) return;
    results.hidden = text === "";
    results.replaceChildren(...(found.length === 0 ? [noResults()] : found.map(resultLink)));
  };
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

async function searchPages(text: string): Promise<DocsResult[] | undefined> {
  try {
    const response = await fetch(`/docs/search.json?q=${encodeURIComponent(text)}`);
    const found: { data: DocsResult[] } | undefined = response.ok
      ? await response.json()
      : undefined;
    return found?.data.slice(0, 8);
  } catch {
    return undefined;
  }
}

function noResults(): HTMLElement {
  const text = document.createElement("p");
  text.textContent = "No page has these words.";
  return text;
}

function resultLink({ url, title, heading, section, excerpt }: DocsResult): HTMLElement {
  const link = document.createElement("a");
  const name = document.createElement("strong");
  const menu = document.createElement("span");
  const text = document.createElement("p");
  link.href = url;
  name.textContent = heading === "" ? title : `${title} › ${heading}`;
  menu.textContent = section;
  text.append(
    ...excerpt.map((part, at) => {
      const element = document.createElement(at % 2 === 1 ? "mark" : "span");
      element.textContent = part;
      return element;
    }),
  );
  link.append(name, menu, text);
  return link;
}

function moveInResults(event: KeyboardEvent, input: HTMLInputElement, results: HTMLElement): void {
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

function startTryIt(): void {
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

async function sendTryIt(form: HTMLFormElement): Promise<void> {
  const status = document.createElement("p");
  const output = document.createElement("pre");
  output.tabIndex = 0;
  form.querySelector(".try-it-result")?.replaceChildren(status, output);
  status.textContent = "Sending …";
  const startedAt = performance.now();
  try {
    const response = await fetch(tryItAddress(form), tryItBody(form));
    const text = await response.text();
    const milliseconds = Math.round(performance.now() - startedAt);
    const requestId = response.headers.get("x-request-id") ?? "";
    status.textContent = `Status ${response.status} in ${milliseconds} ms · ${requestId}`;
    output.textContent = prettyJson(text);
  } catch (error) {
    status.textContent = `The request failed. ${error instanceof Error ? error.message : ""}`;
  }
}

/** The path with its parameters and the query of the form. */
function tryItAddress(form: HTMLFormElement): string {
  const query = new URLSearchParams();
  let url = form.dataset["path"] ?? "";
  for (const { name, value } of form.querySelectorAll("input")) {
    const [location = "", field = ""] = name.split(/\.(.+)/);
    if (location === "path") url = url.replace(`{${field}}`, encodePath(value));
    if (location === "query" && value !== "") query.set(field, value);
  }
  return query.size === 0 ? url : `${url}?${query.toString()}`;
}

function tryItBody(form: HTMLFormElement): RequestInit {
  const { method = "GET", contentType, headers = "{}" } = form.dataset;
  const sent = new Headers(JSON.parse(headers));
  const key = form.querySelector<HTMLInputElement>("input[name=key]")?.value.trim() ?? "";
  if (key !== "") sent.set("authorization", `Bearer ${key}`);
  const text = form.querySelector("textarea")?.value;
  if (text === undefined || contentType === undefined)
    return { method, headers: sent, credentials: "omit" };
  sent.set("content-type", contentType);
  const body = contentType === "application/json" ? text : formBody(text);
  return { method, headers: sent, credentials: "omit", body };
}

/** The fields of a JSON object as a form. */
function formBody(json: string): string {
  return new URLSearchParams(JSON.parse(json)).toString();
}

/** Model ids contain slashes, which stay. */
function encodePath(value: string): string {
  return value.split("/").map(encodeURIComponent).join("/");
}

function prettyJson(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function startDocs(): void {
  addCopyButtons();
  labelCells();
  rememberTabs();
  showCurrentLink();
  startSearch();
  startTryIt();
}
