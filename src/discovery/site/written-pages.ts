// The pages that people wrote, by section of the sidebar. `with { type: "text" }` puts them into the executable.

import billing from "../../../docs/site/billing.md" with { type: "text" };
import budgets from "../../../docs/site/budgets.md" with { type: "text" };
import claim from "../../../docs/site/claim.md" with { type: "text" };
import clients from "../../../docs/site/clients.md" with { type: "text" };
import commands from "../../../docs/site/commands.md" with { type: "text" };
import identity from "../../../docs/site/identity.md" with { type: "text" };
import keys from "../../../docs/site/keys.md" with { type: "text" };
import lastChanged from "../../../docs/site/last-changed.json" with { type: "json" };
import models from "../../../docs/site/models.md" with { type: "text" };
import operations from "../../../docs/site/operations.md" with { type: "text" };
import operator from "../../../docs/site/operator.md" with { type: "text" };
import providers from "../../../docs/site/providers.md" with { type: "text" };
import routing from "../../../docs/site/routing.md" with { type: "text" };
import security from "../../../docs/site/security.md" with { type: "text" };
import settings from "../../../docs/site/settings.md" with { type: "text" };
import simulator from "../../../docs/site/simulator.md" with { type: "text" };
import translation from "../../../docs/site/translation.md" with { type: "text" };
import webhooks from "../../../docs/site/webhooks.md" with { type: "text" };
import x402 from "../../../docs/site/x402.md" with { type: "text" };
import changelog from "../../../CHANGELOG.md" with { type: "text" };
import endpoints from "../../../docs/site/endpoints.md" with { type: "text" };
import index from "../../../docs/site/index.md" with { type: "text" };

export interface WrittenPage {
  readonly slug: string;
  readonly label?: string;
  /** Relative to `docs/site`. */
  readonly file: string;
  readonly text: string;
}

interface WrittenSection {
  readonly title: string;
  readonly pages: readonly WrittenPage[];
}

/** The day of the last commit of each file, written by `npm run docs`. */
export const LAST_CHANGED: Readonly<Record<string, string>> = lastChanged;

export const WRITTEN_SECTIONS: readonly WrittenSection[] = [
  {
    title: "Get started",
    pages: [
      { slug: "", label: "Overview", file: "index.md", text: index },
      page("clients", clients, "Clients and SDKs"),
    ],
  },
  {
    title: "Concepts",
    pages: [
      page("claim", claim, "Accounts and claims"),
      page("keys", keys),
      page("budgets", budgets),
      page("models", models),
      page("routing", routing),
      page("translation", translation),
    ],
  },
  {
    title: "Guides",
    pages: [page("webhooks", webhooks, "Webhooks"), page("x402", x402, "x402 payments")],
  },
  {
    title: "Run your own",
    pages: [
      page("operations", operations),
      page("settings", settings),
      page("commands", commands),
      page("providers", providers),
      page("identity", identity),
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
      { slug: "changelog", file: "../../CHANGELOG.md", text: changelog },
    ],
  },
];

function page(slug: string, text: string, label?: string): WrittenPage {
  return { slug, file: `${slug}.md`, text, ...(label === undefined ? {} : { label }) };
}
