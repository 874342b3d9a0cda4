/** @jsxImportSource hono/jsx */
// Components of the app pages besides tables, forms and charts.

import type { Child } from "hono/jsx";
import type { NavLink } from "../app-frame.tsx";

/** The meaning of a color. */
export type Tone = "good" | "warn" | "danger";

/** A box with a heading. It is not a landmark, because a table in it is one. */
export function Card({
  id,
  title,
  aside,
  isOpen,
  children,
}: {
  readonly id: string;
  readonly title: Child;
  /** Beside the title, such as a link or a legend. */
  readonly aside?: Child;
  /** If it is given, the box has only its heading until it is opened. */
  readonly isOpen?: boolean | undefined;
  readonly children?: Child;
}): Child {
  if (isOpen !== undefined)
    return (
      <details class="card" open={isOpen}>
        <summary>
          <h2 id={id}>{title}</h2>
        </summary>
        {children}
      </details>
    );
  return (
    <div class="card">
      <div class="card-head">
        <h2 id={id}>{title}</h2>
        {aside}
      </div>
      {children}
    </div>
  );
}

export function Tag({
  tone,
  children,
}: {
  readonly tone?: Tone | undefined;
  readonly children: Child;
}): Child {
  return <span class={tone === undefined ? "tag" : `tag ${tone}`}>{children}</span>;
}

/** A message about the state of something, with a link to what resolves it. */
export function Notice({
  tone,
  link,
  children,
}: {
  readonly tone?: "warn" | "danger" | undefined;
  readonly link?: { readonly href: string; readonly label: string };
  readonly children: Child;
}): Child {
  return (
    <div class={`notice row ${tone ?? ""}`.trim()} role="status">
      <span>{children}</span>
      {link === undefined ? null : <a href={link.href}>{link.label}</a>}
    </div>
  );
}

export interface Figure {
  readonly label: string;
  readonly value: Child;
  readonly remark?: Child;
}

/** A row of large figures. */
export function Figures({ figures }: { readonly figures: readonly Figure[] }): Child {
  return (
    <dl class="figures">
      {figures.map(({ label, value, remark }) => (
        <div>
          <dt>{label}</dt>
          <dd class="value">{value}</dd>
          {remark === undefined ? null : <dd class="remark">{remark}</dd>}
        </div>
      ))}
    </dl>
  );
}

/** Names with amounts at the right, as in a statement. */
export function Amounts({
  items,
}: {
  readonly items: readonly (readonly [name: string, amount: Child])[];
}): Child {
  return (
    <dl class="amounts">
      {items.map(([name, amount]) => (
        <div>
          <dt>{name}</dt>
          <dd>{amount}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Names and values, one pair per line. */
export function Details({
  items,
}: {
  readonly items: readonly (readonly [name: Child, value: Child])[];
}): Child {
  return (
    <dl class="details">
      {items.map(([name, value]) => (
        <>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </>
      ))}
    </dl>
  );
}

/** What a list shows before it has entries. */
export function EmptyState({
  title,
  children,
}: {
  readonly title: string;
  readonly children?: Child;
}): Child {
  return (
    <div class="empty">
      <p>
        <b>{title}</b>
      </p>
      {children}
    </div>
  );
}

/** Code with a copy button, which the app script adds. */
export function CodeBlock({ code }: { readonly code: string }): Child {
  return (
    <div class="code-block" data-copy="">
      <pre tabindex={0}>
        <code>{code}</code>
      </pre>
    </div>
  );
}

/** An id or another short text with a copy button. */
export function CopyText({ text }: { readonly text: string }): Child {
  return (
    <span data-copy={text}>
      <code>{text}</code>{" "}
    </span>
  );
}

/** A workspace by its name, with its id: the name may be anything, and two workspaces can have the same. */
export function WorkspaceName({
  id,
  name,
}: {
  readonly id: string;
  readonly name: string | null;
}): Child {
  return name === null ? (
    <code>{id}</code>
  ) : (
    <>
      <b>
        <bdi>{name}</bdi>
      </b>{" "}
      (<code>{id}</code>)
    </>
  );
}

export interface CodeTab {
  readonly label: string;
  readonly code: string;
}

/** Variants of a code example. Works without a script: the tabs are radio buttons. */
export function CodeTabs({
  id,
  label,
  tabs,
}: {
  readonly id: string;
  readonly label: string;
  readonly tabs: readonly CodeTab[];
}): Child {
  return (
    <div class="tabs" role="group" aria-label={label}>
      {tabs.map((tab, index) => (
        <>
          <input type="radio" name={id} id={`${id}-${index}`} checked={index === 0} />
          <label for={`${id}-${index}`}>{tab.label}</label>
          <CodeBlock code={tab.code} />
        </>
      ))}
    </div>
  );
}

/** One of a few views. */
export function Segments({
  label,
  links,
}: {
  readonly label: string;
  readonly links: readonly {
    readonly href: string;
    readonly label: string;
    readonly isCurrent: boolean;
  }[];
}): Child {
  return (
    <nav class="segments" aria-label={label}>
      {links.map((link) => (
        <a href={link.href} aria-current={link.isCurrent ? "true" : undefined}>
          {link.label}
        </a>
      ))}
    </nav>
  );
}

/** How much of a limit is used. */
export function UsageBar({
  label,
  used,
  limit,
}: {
  readonly label: string;
  readonly used: bigint;
  readonly limit: bigint;
}): Child {
  const percent = limit <= 0n ? 100 : Number((used * 100n) / limit);
  const tone = percent >= 100 ? "danger" : percent >= 80 ? "warn" : undefined;
  return (
    <progress class={tone} max={100} value={Math.min(100, percent)} aria-label={label}>
      {percent}%
    </progress>
  );
}

/** Links after a sentence. */
export function LinkList({ links }: { readonly links: readonly NavLink[] }): Child {
  return (
    <>
      {links.map(({ href, label }) => (
        <>
          {" "}
          <a href={href}>{label}</a>
        </>
      ))}
    </>
  );
}
