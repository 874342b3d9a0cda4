// The search dialog, opened by ⌘K, Ctrl+K or the search link, which leads to a page without the script.

export function showSearchResults(
  list: HTMLElement,
  { text, link, isCurrent }: { text: string; link: HTMLAnchorElement; isCurrent: () => boolean },
): void {
  const needle = text.trim().toLowerCase();
  const pages = [...document.querySelectorAll<HTMLAnchorElement>(".sidebar nav a")]
    .map((page) => ({ href: page.href, label: page.textContent, kind: "Page" }))
    .filter(({ label }) => label.toLowerCase().includes(needle));
  const add = (results: readonly { href: string; label: string; kind: string }[]): void => {
    list.append(
      ...results.map(({ href, label, kind }) => {
        const item = document.createElement("li");
        const target = document.createElement("a");
        const note = document.createElement("span");
        target.href = href;
        target.append(label, note);
        note.textContent = kind;
        note.className = "muted";
        item.append(target);
        return item;
      }),
    );
  };
  list.replaceChildren();
  add(pages);
  const source = link.dataset["search"];
  if (source === undefined || needle.length < 2) return;
  void fetch(`${source}?q=${encodeURIComponent(needle)}`, {
    headers: { accept: "application/json" },
    redirect: "manual",
  })
    .then((response) => {
      if (response.ok) return response.json();
      const href = `/signin?return_to=${encodeURIComponent(location.pathname)}`;
      return { data: [{ href, label: "Sign in to search keys and logs", kind: "Session ended" }] };
    })
    .then((found: { data: { href: string; label: string; kind: string }[] }) => {
      // A slow reply to an earlier text must not be shown, and a result that has the focus must stay.
      if (isCurrent()) add(found.data);
    })
    .then(() => fetch(`/docs/search.json?q=${encodeURIComponent(needle)}`))
    .then((response) => response.json())
    .then((found: { data: { url: string; title: string; heading: string }[] }) => {
      if (isCurrent())
        add(
          found.data.slice(0, 5).map(({ url, title, heading }) => ({
            href: url,
            label: heading === "" ? title : `${title} › ${heading}`,
            kind: "Docs",
          })),
        );
    })
    .catch(() => undefined);
}

export function openSearch(link: HTMLAnchorElement): void {
  document.querySelector("dialog.search")?.remove();
  const dialog = document.createElement("dialog");
  const input = document.createElement("input");
  const list = document.createElement("ul");
  dialog.className = "search";
  dialog.setAttribute("aria-label", link.dataset["placeholder"] ?? "Search");
  input.type = "search";
  input.placeholder = link.dataset["placeholder"] ?? "Search";
  input.setAttribute("aria-label", input.placeholder);
  list.className = "search-results";
  dialog.append(input, list);
  document.body.append(dialog);
  let searches = 0;
  const update = (): void => {
    const search = ++searches;
    showSearchResults(list, { text: input.value, link, isCurrent: () => search === searches });
  };
  input.addEventListener("input", update);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  dialog.addEventListener("keydown", (event) => {
    const links = [...list.querySelectorAll("a")];
    const at = links.findIndex((found) => found === document.activeElement);
    if (event.key === "Enter" && event.target === input) links[0]?.click();
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    const next = at + (event.key === "ArrowDown" ? 1 : -1);
    if (next < 0) input.focus();
    else links[Math.min(next, links.length - 1)]?.focus();
  });
  update();
  dialog.showModal();
}

export function startSearch(): void {
  const link = document.querySelector<HTMLAnchorElement>("a.search-link");
  if (link === null) return;
  link.addEventListener("click", (event) => {
    event.preventDefault();
    openSearch(link);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.metaKey || event.ctrlKey)) return;
    event.preventDefault();
    openSearch(link);
  });
}
