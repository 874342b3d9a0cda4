// Renders Markdown to HTML, with anchors, copyable code and tabs. The one renderer of documents, summaries and descriptions.
// Text and HTML in the source are escaped, so a description cannot inject markup.

export interface Heading {
  readonly level: number;
  readonly id: string;
  readonly text: string;
}

export interface RenderedMarkdown {
  readonly html: string;
  readonly headings: readonly Heading[];
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
};

/** `<!-- tabs: curl, Python -->`, one code block for each label, `<!-- /tabs -->`. */
const TABS = /<!-- tabs: (.+?) -->\n([\s\S]*?)<!-- \/tabs -->/g;
const CODE_BLOCK = /^```(\w*)\n([\s\S]*?)^```$/gm;
const TABS_MARK = /\[\[tabs-(\d+)\]\]/;

export function renderMarkdown(source: string): RenderedMarkdown {
  const headings: Heading[] = [];
  const tabs: string[] = [];
  const text = source.replaceAll(TABS, (_, labels: string, blocks: string) => {
    tabs.push(tabsHtml(labels.split(", "), blocks, tabs.length));
    return `[[tabs-${tabs.length - 1}]]\n`;
  });
  const html = Bun.markdown.render(text, callbacks(headings, tabs), { headings: { ids: true } });
  return { html, headings };
}

type Callbacks = NonNullable<Parameters<typeof Bun.markdown.render>[1]>;

function callbacks(headings: Heading[], tabs: readonly string[]): Callbacks {
  return {
    text: escapeHtml,
    html: () => "",
    heading: (children, { level, id = "" }) => {
      headings.push({ level, id, text: plainText(children) });
      if (level === 1) return `<h1>${children}</h1>\n`;
      return `<h${level} id="${id}"><a class="anchor" href="#${id}">${children}</a></h${level}>\n`;
    },
    paragraph: (children) => {
      const index = TABS_MARK.exec(children)?.[1];
      return index === undefined ? `<p>${children}</p>\n` : (tabs[Number(index)] ?? "");
    },
    code: (children, meta) => codeHtml(children, meta?.language),
    codespan: (children) => `<code>${children}</code>`,
    strong: (children) => `<strong>${children}</strong>`,
    emphasis: (children) => `<em>${children}</em>`,
    strikethrough: (children) => `<del>${children}</del>`,
    blockquote: (children) => `<blockquote>${children}</blockquote>\n`,
    hr: () => "<hr>\n",
    list: (children, { ordered, start = 1 }) =>
      ordered
        ? `<ol${start === 1 ? "" : ` start="${start}"`}>${children}</ol>\n`
        : `<ul>${children}</ul>\n`,
    listItem: (children) => `<li>${children}</li>\n`,
    table: tableHtml,
    thead: (children) => `<thead>${children}</thead>`,
    tbody: (children) => `<tbody>${children}</tbody>`,
    tr: (children) => `<tr>${children}</tr>`,
    th: (children, meta) =>
      children === "" ? "<td></td>" : `<th${numberClass(meta?.align)}>${children}</th>`,
    td: (children, meta) => `<td${numberClass(meta?.align)}>${children}</td>`,
    link: (children, { href }) => linkHtml(children, href),
    image: (children, { src }) =>
      `<img src="${escapeHtml(src)}" alt="${plainText(children)}" loading="lazy">`,
  };
}

function numberClass(align: string | undefined): string {
  return align === "right" ? ` class="number"` : "";
}

const STACKED_COLUMNS_MIN = 3;

/** On narrow screens the rows of a table with many columns are blocks, in which the script of the documentation names the cells. */
function tableHtml(children: string): string {
  const names = [...children.matchAll(/<th(?: [^>]*)?>(.*?)<\/th>/g)].map(([, name]) => name);
  const isStacked = names.length >= STACKED_COLUMNS_MIN || names[0] === "Field";
  return `<div class="scroll${isStacked ? " stacked" : ""}" role="group" aria-label="Table" tabindex="0"><table>${children}</table></div>\n`;
}

function plainText(html: string): string {
  return html.replaceAll(/<[^>]+>/g, "");
}

/** A `javascript:` address loses its link. */
function linkHtml(children: string, href: string): string {
  return /^(https?:|mailto:|\/|#)/.test(href)
    ? `<a href="${escapeHtml(href)}">${children}</a>`
    : children;
}

function codeHtml(escaped: string, language = "text"): string {
  return `<pre tabindex="0" data-language="${escapeHtml(language)}"><code>${escaped.replace(/\n$/, "")}</code></pre>\n`;
}

/** Radio buttons, so that tabs work without scripts; a script keeps the choice. */
function tabsHtml(labels: readonly string[], blocks: string, index: number): string {
  const panels = [...blocks.matchAll(CODE_BLOCK)].map(([, language, code = ""]) =>
    codeHtml(escapeHtml(code), language),
  );
  const tabs = panels.map((panel, at) => {
    const label = escapeHtml(labels[at] ?? "");
    const id = `tabs-${index}-${at}`;
    return `<input type="radio" name="tabs-${index}" id="${id}" value="${label}"${at === 0 ? " checked" : ""}><label for="${id}">${label}</label><div class="tab-panel">${panel}</div>`;
  });
  return `<fieldset class="tabs"><legend class="visually-hidden">Example in</legend>${tabs.join("")}</fieldset>\n`;
}

function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"]/g, (character) => ENTITIES[character] ?? character);
}
