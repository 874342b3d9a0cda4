// The script of the console and operator pages: copy buttons, relative times, chart tooltips and the search dialog.

import { browserScript } from "./browser-script.ts";
import { startSearch, openSearch, showSearchResults } from "./search-dialog.ts";

export const APP_SCRIPT_SOURCE = browserScript([
  addCopyButtons,
  addPrintButtons,
  relativeTime,
  showRelativeTimes,
  addChartTips,
  fillChartTip,
  proposeTimeZone,
  showLocalTimeZone,
  followPage,
  showSearchResults,
  openSearch,
  startSearch,
  startApp,
]);

function addCopyButtons(within: ParentNode): void {
  for (const block of within.querySelectorAll<HTMLElement>("[data-copy]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy secondary";
    button.textContent = "Copy";
    button.addEventListener("click", () => {
      const text = block.dataset["copy"] || (block.querySelector("code")?.textContent ?? "");
      void navigator.clipboard.writeText(text).then(() => {
        button.textContent = "Copied";
        setTimeout(() => {
          button.textContent = "Copy";
        }, 2000);
      });
    });
    block.append(button);
  }
}

function addPrintButtons(): void {
  for (const holder of document.querySelectorAll<HTMLElement>("[data-print]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "secondary";
    button.textContent = "Print";
    button.addEventListener("click", () => print());
    holder.append(button);
  }
}

function relativeTime(ms: number): string {
  const format = new Intl.RelativeTimeFormat("en", { style: "narrow" });
  const units: readonly (readonly [Intl.RelativeTimeFormatUnit, number])[] = [
    ["day", 86_400_000],
    ["hour", 3_600_000],
    ["minute", 60_000],
  ];
  for (const [unit, size] of units)
    if (Math.abs(ms) >= (unit === "day" ? 2 * size : size))
      return format.format(Math.trunc(ms / size), unit);
  return "just now";
}

function showRelativeTimes(): void {
  for (const time of document.querySelectorAll<HTMLTimeElement>("time[data-relative]")) {
    if (time.title === "") time.title = time.textContent;
    time.textContent = relativeTime(Date.parse(time.dateTime) - Date.now());
  }
}

function addChartTips(): void {
  for (const chart of document.querySelectorAll<HTMLElement>(".chart")) {
    const tip = document.createElement("div");
    tip.className = "chart-tip";
    tip.hidden = true;
    chart.append(tip);
    for (const bar of chart.querySelectorAll<SVGRectElement>("rect.hit")) {
      // The browser's own tooltip would cover this one.
      const title = bar.querySelector("title");
      const text = title?.textContent ?? "";
      title?.remove();
      bar.addEventListener("pointerenter", () => {
        fillChartTip(tip, text, bar);
        tip.hidden = false;
        const { left, width } = chart.getBoundingClientRect();
        const middle = bar.getBoundingClientRect().left - left;
        tip.style.left = `${Math.max(0, Math.min(middle + 12, width - tip.offsetWidth))}px`;
      });
      bar.addEventListener("pointerleave", () => {
        tip.hidden = true;
      });
      const { href } = bar.dataset;
      if (href !== undefined) bar.addEventListener("click", () => location.assign(href));
    }
  }
}

/** Each line of a series has its color. The segments of a bar are in the order of the lines. */
function fillChartTip(tip: HTMLElement, text: string, bar: SVGRectElement): void {
  const segments = [...(bar.parentElement?.querySelectorAll("rect:not(.hit)") ?? [])];
  const [total = "", ...lines] = text.split("\n");
  const heading = document.createElement("b");
  heading.textContent = total;
  const rows = lines.map((line, index) => {
    const swatch = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    swatch.setAttribute("viewBox", "0 0 9 9");
    const square = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    square.setAttribute("class", segments[index]?.getAttribute("class") ?? "");
    square.setAttribute("width", "9");
    square.setAttribute("height", "9");
    swatch.append(square);
    const row = document.createElement("div");
    row.append(swatch, line);
    return row;
  });
  tip.replaceChildren(heading, ...rows);
}

/** Offers the time zone of the browser to a person who has not chosen one. */
function proposeTimeZone(): void {
  const form = document.querySelector<HTMLFormElement>("form[data-propose-time-zone]");
  const button = form?.querySelector<HTMLButtonElement>("button");
  const timeZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!form || !button || timeZone === "UTC") return;
  button.value = timeZone;
  button.textContent = `Use ${timeZone}`;
  form.hidden = false;
}

/** Only a script knows the time zone of the reader. */
function showLocalTimeZone(): void {
  const timeZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (timeZone === "UTC") return;
  for (const link of document.querySelectorAll<HTMLAnchorElement>("a[data-local-time-zone]")) {
    const url = new URL(link.href);
    url.searchParams.set("tz", timeZone);
    link.href = url.href;
    link.textContent = `Show ${timeZone}`;
    link.hidden = false;
  }
}

/** Reads the page again while a part of it says that it will change, and shows that part anew. */
async function followPage(): Promise<void> {
  const part = document.querySelector<HTMLElement>("[data-follow]");
  if (part === null) return;
  await new Promise((resolve) => setTimeout(resolve, 2000));
  const response = document.hidden ? undefined : await fetch(location.href).catch(() => undefined);
  if (response?.ok === true) {
    const read = new DOMParser().parseFromString(await response.text(), "text/html");
    const fresh = read.getElementById(part.id);
    if (fresh === null) return;
    // The focus would be lost.
    if (!part.contains(document.activeElement)) {
      part.replaceWith(fresh);
      addCopyButtons(fresh);
      showRelativeTimes();
    }
  }
  void followPage();
}

function startApp(): void {
  document.querySelector(".sidebar [aria-current]")?.scrollIntoView({ block: "nearest" });
  addCopyButtons(document);
  addPrintButtons();
  showRelativeTimes();
  setInterval(showRelativeTimes, 60_000);
  addChartTips();
  proposeTimeZone();
  showLocalTimeZone();
  startSearch();
  void followPage();
}
