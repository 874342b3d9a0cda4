// The pages that people wrote. A page is one file of `docs/site` with front matter: its `menu`, its place there (`order`), and if
// needed its `label` in the menu and `keywords`, words that people search for and that the text does not have.

import { readPageFiles } from "./page-files.ts" with { type: "macro" };
import type { Audience } from "./site-types.ts";

export interface WrittenPage {
  readonly slug: string;
  readonly label?: string;
  readonly keywords?: string;
  /** Relative to `docs/site`. */
  readonly file: string;
  readonly text: string;
}

export interface WrittenSection {
  readonly title: string;
  readonly audience: Audience;
  readonly pages: readonly WrittenPage[];
}

declare const POSTERN_LAST_CHANGED: Readonly<Record<string, string>> | undefined;

/** The day of the last commit of each file. Only a build knows it (`bin/last-changed.js`). */
export const LAST_CHANGED: Readonly<Record<string, string>> =
  typeof POSTERN_LAST_CHANGED === "undefined" ? {} : POSTERN_LAST_CHANGED;

/** The menus in their order. The pages of the reference come before those of "Resources". */
const MENUS: readonly (readonly [title: string, audience: Audience])[] = [
  ["Get started", "customers"],
  ["Guides", "customers"],
  ["SDKs and tools", "customers"],
  ["Concepts", "customers"],
  ["Payments and events", "customers"],
  ["Resources", "customers"],
  ["Run your own", "operators"],
  ["Configure", "operators"],
  ["Test", "operators"],
  ["Releases", "operators"],
];

/** Front matter of the file that is not in `docs/site` and has none. */
const CHANGELOG_FILE = "../../CHANGELOG.md";
const CHANGELOG_FRONT = "menu: Releases\norder: 10\nlabel: Changelog";
const CHANGELOG_SLUG = "operators/changelog";

const FRONT_MATTER = /^---\n([\s\S]*?)\n---\n/;

export const WRITTEN_SECTIONS: readonly WrittenSection[] = writtenSections(readPageFiles());

export function writtenSections(
  files: Readonly<Record<string, string>>,
): readonly WrittenSection[] {
  const pages = Object.entries(files)
    .map(([file, text]) => readPage(file, text))
    .sort((left, right) => left.order - right.order || (left.slug < right.slug ? -1 : 1));
  const unknown = pages.find(({ menu }) => !MENUS.some(([title]) => title === menu));
  if (unknown !== undefined)
    throw new Error(`docs/site/${unknown.file} has no \`menu\` that is in MENUS`);
  return MENUS.map(([title, audience]) => ({
    title,
    audience,
    pages: pages.filter(({ menu }) => menu === title),
  }));
}

interface ReadPage extends WrittenPage {
  readonly menu: string;
  readonly order: number;
}

function readPage(file: string, source: string): ReadPage {
  const front = file === CHANGELOG_FILE ? CHANGELOG_FRONT : (FRONT_MATTER.exec(source)?.[1] ?? "");
  const fields = new Map(
    front.split("\n").map((line): [string, string] => {
      const [name = "", value = ""] = line.split(/: (.*)/);
      return [name, value];
    }),
  );
  const label = fields.get("label");
  const keywords = fields.get("keywords");
  return {
    slug: slugOf(file),
    file,
    text: source.replace(FRONT_MATTER, ""),
    menu: fields.get("menu") ?? "",
    order: Number(fields.get("order") ?? 0),
    ...(label === undefined ? {} : { label }),
    ...(keywords === undefined ? {} : { keywords }),
  };
}

function slugOf(file: string): string {
  if (file === CHANGELOG_FILE) return CHANGELOG_SLUG;
  const slug = file.slice(0, -".md".length);
  return slug === "index" ? "" : slug;
}
