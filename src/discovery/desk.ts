// What the writers of the text documents work with: the routes by their address, their commands and their records.

import { CLAIM_START, CLAIM_TOKEN } from "./addresses.ts";
import type { Method, Route } from "../http/route.ts";
import { type CurlOptions, curlOf } from "./curl.ts";
import { type OpenApiDocument } from "./openapi-form.ts";
import { schemaRows } from "./schema-rows.ts";
import type { DiscoverySettings } from "./settings.ts";

export type Address = `${Method} /${string}`;

const CLAIM_ADDRESSES: ReadonlySet<Address> = new Set([CLAIM_START, CLAIM_TOKEN]);

export interface Desk {
  readonly routes: readonly Route[];
  readonly settings: DiscoverySettings;
  /** Whether an agent can do that here. */
  readonly has: (address: Address) => boolean;
  /** A fenced shell command, or nothing where that route is not mounted. */
  readonly curl: (
    address: Address,
    options?: CurlOptions & { readonly before?: readonly string[] },
  ) => string;
  /** The fenced example of the route's good answer, or nothing. */
  readonly answer: (address: Address) => string;
  /** The fields of the route's body as a table, or nothing. */
  readonly fields: (address: Address) => string;
}

export function openDesk(
  routes: readonly Route[],
  document: OpenApiDocument,
  settings: DiscoverySettings,
): Desk {
  const find = (address: Address): Route | undefined =>
    routes.find((route) => `${route.method} ${route.path}` === address && route.hidden !== true);
  return {
    routes,
    settings,
    has: (address) =>
      find(address) !== undefined &&
      !(settings.nobodySignsIn === true && CLAIM_ADDRESSES.has(address)),
    curl: (address, options) => {
      const route = find(address);
      if (route === undefined) return "";
      return fenced(
        "sh",
        [...(options?.before ?? []), curlOf(route, settings, options)].join("\n"),
      );
    },
    answer: (address) => {
      const example = goodAnswer(find(address))?.[1].example;
      return example === undefined ? "" : fenced("json", JSON.stringify(example, null, 2));
    },
    fields: (address) => {
      const [method = "", path = ""] = address.split(" ");
      const content = document.paths[path]?.[method.toLowerCase()]?.requestBody?.content ?? {};
      const schema = Object.values(content)[0]?.schema;
      const rows = schema === undefined ? [] : schemaRows(schema, document.components.schemas);
      return table(
        ["Field", "Type", "Meaning"],
        rows.map((row) => [
          `\`${row.name}\``,
          row.required ? row.type : `${row.type}, optional`,
          row.description,
        ]),
      );
    },
  };
}

/** The status that means success, such as 201. */
export function goodStatus(desk: Desk, address: Address): string {
  const route = desk.routes.find((each) => `${each.method} ${each.path}` === address);
  return goodAnswer(route)?.[0] ?? "200";
}

function goodAnswer(
  route: Route | undefined,
): readonly [string, Route["answers"][number]] | undefined {
  return Object.entries(route?.answers ?? {}).find(([status]) => status.startsWith("2"));
}

export function fenced(language: string, text: string): string {
  return `\`\`\`${language}\n${text}\n\`\`\``;
}

/** A Markdown table, or nothing where it has no rows. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return "";
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll("|", String.raw`\|`)).join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

/** Paragraphs with an empty line between them; what is empty is left out. */
export function paragraphs(parts: readonly string[]): string {
  return parts.filter((part) => part !== "").join("\n\n");
}
