// The pages that people wrote. A page is one file of `docs/site` with front matter: its `menu`, its place there (`order`), and if
// needed its `label` in the menu and `keywords`, words that people search for and that the text does not have.

import { readPageFiles } from "./page-files.ts" with { type: "macro" };
import type { Audience } from "./site-types.ts";
import changelog from "../../../CHANGELOG.md" with { type: "text" };
import abilities from "../../../docs/site/abilities.md" with { type: "text" };
import agentQuickStart from "../../../docs/site/agent-quick-start.md" with { type: "text" };
import billing from "../../../docs/site/billing.md" with { type: "text" };
import budgets from "../../../docs/site/budgets.md" with { type: "text" };
import byok from "../../../docs/site/byok.md" with { type: "text" };
import caching from "../../../docs/site/caching.md" with { type: "text" };
import claim from "../../../docs/site/claim.md" with { type: "text" };
import clients from "../../../docs/site/clients.md" with { type: "text" };
import commands from "../../../docs/site/commands.md" with { type: "text" };
import credits from "../../../docs/site/credits.md" with { type: "text" };
import deploy from "../../../docs/site/deploy.md" with { type: "text" };
import emails from "../../../docs/site/emails.md" with { type: "text" };
import endpoints from "../../../docs/site/endpoints.md" with { type: "text" };
import aider from "../../../docs/site/guides/aider.md" with { type: "text" };
import anthropicSdk from "../../../docs/site/guides/anthropic-sdk.md" with { type: "text" };
import claudeCode from "../../../docs/site/guides/claude-code.md" with { type: "text" };
import codex from "../../../docs/site/guides/codex.md" with { type: "text" };
import editors from "../../../docs/site/guides/editors.md" with { type: "text" };
import langchain from "../../../docs/site/guides/langchain.md" with { type: "text" };
import litellm from "../../../docs/site/guides/litellm.md" with { type: "text" };
import mcp from "../../../docs/site/guides/mcp.md" with { type: "text" };
import openaiAgents from "../../../docs/site/guides/openai-agents.md" with { type: "text" };
import openaiSdk from "../../../docs/site/guides/openai-sdk.md" with { type: "text" };
import opencode from "../../../docs/site/guides/opencode.md" with { type: "text" };
import pydanticAi from "../../../docs/site/guides/pydantic-ai.md" with { type: "text" };
import vercelAiSdk from "../../../docs/site/guides/vercel-ai-sdk.md" with { type: "text" };
import identity from "../../../docs/site/identity.md" with { type: "text" };
import index from "../../../docs/site/index.md" with { type: "text" };
import keys from "../../../docs/site/keys.md" with { type: "text" };
import mcpServer from "../../../docs/site/mcp.md" with { type: "text" };
import models from "../../../docs/site/models.md" with { type: "text" };
import mpp from "../../../docs/site/mpp.md" with { type: "text" };
import operations from "../../../docs/site/operations.md" with { type: "text" };
import operator from "../../../docs/site/operator.md" with { type: "text" };
import privacy from "../../../docs/site/privacy.md" with { type: "text" };
import providers from "../../../docs/site/providers.md" with { type: "text" };
import quickStart from "../../../docs/site/quick-start.md" with { type: "text" };
import quotesAndReceipts from "../../../docs/site/quotes-and-receipts.md" with { type: "text" };
import routing from "../../../docs/site/routing.md" with { type: "text" };
import scale from "../../../docs/site/scale.md" with { type: "text" };
import security from "../../../docs/site/security.md" with { type: "text" };
import settings from "../../../docs/site/settings.md" with { type: "text" };
import simulator from "../../../docs/site/simulator.md" with { type: "text" };
import status from "../../../docs/site/status.md" with { type: "text" };
import translation from "../../../docs/site/translation.md" with { type: "text" };
import upgrading from "../../../docs/site/upgrading.md" with { type: "text" };
import usage from "../../../docs/site/usage.md" with { type: "text" };
import verifiedAgents from "../../../docs/site/verified-agents.md" with { type: "text" };
import webhooks from "../../../docs/site/webhooks.md" with { type: "text" };
import x402 from "../../../docs/site/x402.md" with { type: "text" };

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
export const WRITTEN_SECTIONS: readonly WrittenSection[] = [
  {
    title: "Get started",
    pages: [
      { slug: "", label: "Overview", file: "index.md", text: index },
      page("quick-start", quickStart),
      page("agent-quick-start", agentQuickStart, "For agents"),
      page("clients", clients, "Clients and SDKs"),
      page("mcp", mcpServer, "MCP and discovery"),
    ],
  },
  {
    title: "Concepts",
    pages: [
      page("claim", claim, "Accounts and claims"),
      page("keys", keys),
      page("budgets", budgets),
      page("emails", emails),
      page("credits", credits),
      page("usage", usage),
      page("quotes-and-receipts", quotesAndReceipts),
      page("routing", routing),
      page("translation", translation),
      page("abilities", abilities, "What models support"),
      page("caching", caching),
      page("privacy", privacy),
    ],
  },
  {
    title: "Guides",
    pages: [
      page("guides/openai-sdk", openaiSdk),
      page("guides/anthropic-sdk", anthropicSdk),
      page("guides/vercel-ai-sdk", vercelAiSdk),
      page("guides/langchain", langchain),
      page("guides/litellm", litellm),
      page("guides/pydantic-ai", pydanticAi),
      page("guides/openai-agents", openaiAgents),
      page("guides/claude-code", claudeCode),
      page("guides/codex", codex),
      page("guides/opencode", opencode),
      page("guides/aider", aider),
      page("guides/editors", editors),
      page("guides/mcp", mcp),
      page("webhooks", webhooks, "Webhooks"),
      page("x402", x402, "x402 payments"),
      page("mpp", mpp, "Machine Payments"),
      page("byok", byok, "Your own provider keys"),
    ],
  },
  {
    title: "Run your own",
    pages: [
      page("operations", operations),
      page("scale", scale),
      page("deploy", deploy),
      page("upgrading", upgrading),
      page("settings", settings),
      page("commands", commands),
      page("models", models, "Models file"),
      page("providers", providers),
      page("identity", identity),
      page("verified-agents", verifiedAgents, "Verified agents"),
      page("billing", billing),
      page("operator", operator),
      page("simulator", simulator),
    ],
  },
  {
    title: "Resources",
    pages: [
      page("security", security),
      page("endpoints", endpoints, "List of endpoints"),
      page("status", status),
      { slug: "changelog", file: "../../CHANGELOG.md", text: changelog },
    ],
  },
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
