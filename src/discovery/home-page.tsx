/** @jsxImportSource hono/jsx */
// The home page, for people. Programs get the same facts as JSON or llms.txt.

import type { Child } from "hono/jsx";
import type { NavLink } from "../http/pages/app-frame.tsx";
import { APP_SCRIPT } from "../http/pages/assets.ts";
import { CodeTabs, LinkList } from "../http/pages/components/content.tsx";
import type { PageLayout } from "../http/pages/layout.tsx";
import { creditsText, type DiscoverySettings, PRODUCT_NAME } from "./discovery-settings.ts";
import type { DocContext } from "./doc-context.ts";
import { type HomeModel, HomeModels } from "./home-models.tsx";
import { REGISTER_ROUTE } from "./route-keys.ts";

const SITE_LINKS: readonly NavLink[] = [
  { href: "/models", label: "Models" },
  { href: "/docs", label: "Docs" },
  { href: "/auth.md", label: "For agents" },
  { href: "/openapi.yaml", label: "OpenAPI" },
];

const CONSOLE_PATH = "/console";
const CONSOLE_LINKS = {
  signed_in: { href: CONSOLE_PATH, label: "Console" },
  signed_out: { href: CONSOLE_PATH, label: "Sign in" },
} as const satisfies Readonly<Record<string, NavLink>>;

type ConsoleAccess = keyof typeof CONSOLE_LINKS;

export const TAGLINE = "An AI gateway that AI agents can sign up for on their own";
export const PRODUCT_SUMMARY = `${TAGLINE}. One request creates an account with starting credits, and every model works with the OpenAI, Anthropic and Google APIs.`;

export function homePage(
  context: DocContext,
  models: readonly HomeModel[],
  isSignedIn: boolean,
): PageLayout {
  const { settings } = context;
  const access = consoleAccess(settings, isSignedIn);
  return {
    title: `${PRODUCT_NAME}: ${TAGLINE}`,
    description: PRODUCT_SUMMARY,
    nav: access === undefined ? SITE_LINKS : [...SITE_LINKS, CONSOLE_LINKS[access]],
    isWide: true,
    scripts: [APP_SCRIPT],
    main: (
      <>
        <Hero context={context} access={access} />
        {settings.isSimulated === true ? (
          <p class="notice warn">
            No provider key is configured, so this gateway serves simulated models. Their output is
            not real. <a href="/docs/providers">Set up providers</a>
          </p>
        ) : null}
        <FeatureGrid settings={settings} />
        <HomeModels models={models} />
        <Pricing settings={settings} />
        <NextSteps settings={settings} access={access} />
      </>
    ),
    footer: <Footer settings={settings} />,
  };
}

/** Undefined if sign-in is disabled. */
function consoleAccess(
  { isSignInDisabled }: DiscoverySettings,
  isSignedIn: boolean,
): ConsoleAccess | undefined {
  if (isSignInDisabled === true) return undefined;
  return isSignedIn ? "signed_in" : "signed_out";
}

function Hero({
  context,
  access,
}: {
  readonly context: DocContext;
  readonly access: ConsoleAccess | undefined;
}): Child {
  return (
    <div class="hero">
      <div>
        <h1>{TAGLINE}</h1>
        <p class="intro">
          One request creates an account with starting credits. Every model works with the OpenAI,
          Anthropic and Google APIs, at the providers' list prices.
        </p>
        <div class="hero-links">
          {access === undefined ? null : (
            <a class="button" href={CONSOLE_PATH}>
              {access === "signed_in" ? "Open console" : "Get started"}
            </a>
          )}
          <a class={access === undefined ? "button" : "button secondary"} href="/docs">
            Read the docs
          </a>
        </div>
      </div>
      <CodeTabs id="start" label="How to start" tabs={startTabs(context)} />
    </div>
  );
}

function startTabs(
  context: DocContext,
): readonly { readonly label: string; readonly code: string }[] {
  const { baseUrl, exampleModel } = context.settings;
  const command = context.curl(REGISTER_ROUTE).split("\n").slice(1, -1).join("\n");
  const register = {
    label: "Agent",
    code: `# 1. Create an account, and keep its key.
${command} | tee account.json
export POSTERN_API_KEY=$(
  sed 's/.*"api_key":"\\([^"]*\\)".*/\\1/' account.json)

# 2. Call a model.
curl -sS ${baseUrl}/v1/chat/completions \\
  -H "authorization: Bearer $POSTERN_API_KEY" \\
  -H 'content-type: application/json' \\
  -d '{"model": "${exampleModel}", "messages":
       [{"role": "user", "content": "Hello"}]}'`,
  };
  return [
    ...(context.isMounted(REGISTER_ROUTE) ? [register] : []),
    {
      label: "OpenAI SDK",
      code: `import os
from openai import OpenAI

client = OpenAI(base_url="${baseUrl}/v1", api_key=os.environ["POSTERN_API_KEY"])
reply = client.chat.completions.create(
    model="${exampleModel}",
    max_tokens=100,
    messages=[{"role": "user", "content": "Hello"}],
)
print(reply.choices[0].message.content)`,
    },
    {
      label: "Anthropic SDK",
      code: `import os
from anthropic import Anthropic

client = Anthropic(base_url="${baseUrl}", api_key=os.environ["POSTERN_API_KEY"])
message = client.messages.create(
    model="${exampleModel}",
    max_tokens=100,
    messages=[{"role": "user", "content": "Hello"}],
)
print(message.content[0].text)`,
    },
    {
      label: "Claude Code",
      code: `export ANTHROPIC_BASE_URL="${baseUrl}"
export ANTHROPIC_AUTH_TOKEN="$POSTERN_API_KEY"
claude --model ${exampleModel}`,
    },
  ];
}

interface Feature {
  readonly title: string;
  readonly text: Child;
}

function FeatureGrid({ settings }: { readonly settings: DiscoverySettings }): Child {
  return (
    <section aria-labelledby="features">
      <h2 id="features">What you get</h2>
      <dl class="feature-grid">
        {features(settings).map(({ title, text }) => (
          <div>
            <dt>{title}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function features({ startingCredits }: DiscoverySettings): readonly Feature[] {
  return [
    {
      title: "Agents sign up themselves",
      text: (
        <>
          No browser and no human: <a href="/auth.md">auth.md</a> says how to get a key, with{" "}
          {creditsText(startingCredits)} to start. A person can take the account over later.
        </>
      ),
    },
    ...OTHER_FEATURES,
  ];
}

const OTHER_FEATURES: readonly Feature[] = [
  {
    title: "Every model, the API you know",
    text: (
      <>
        Call any of the <a href="/models">models</a> through Chat Completions, Responses, Messages
        or generateContent. Requests are translated; nothing is dropped silently.
      </>
    ),
  },
  {
    title: "More than chat",
    text: (
      <>
        Images, speech, transcription, embeddings, rerank, moderation and{" "}
        <a href="/docs/batches">batches</a>, and <a href="/docs/mcp-tools">MCP tools</a> for every
        model.
      </>
    ),
  },
  {
    title: "Hard limits",
    text: (
      <>
        <a href="/docs/keys">Keys</a> have limits, workspaces have{" "}
        <a href="/docs/budgets">budgets</a>. A call that would exceed one is rejected before it is
        sent, also under load.
      </>
    ),
  },
  {
    title: "Quotes and receipts",
    text: (
      <>
        A <a href="/docs/quotes-and-receipts">quote</a> fixes the price of a call before it runs. A
        signed receipt proves afterwards what was used and charged.
      </>
    ),
  },
  {
    title: "Guardrails",
    text: (
      <>
        <a href="/docs/guardrails">Guardrails</a> mask or block secrets, personal data and topics in
        requests and replies, or ask a server of yours.
      </>
    ),
  },
  {
    title: "Fallbacks",
    text: "If a provider fails before its first byte, the next one is called. You pay only for the reply that you get.",
  },
  {
    title: "Every cent explained",
    text: "Logs show tokens, prices, attempts and latency of each call, with the arithmetic of its cost. Prompts and replies are not logged unless a key asks for it.",
  },
  {
    title: "Your own provider keys",
    text: (
      <>
        Bring keys of your providers: those calls are billed by the provider and cost no credits.
        See <a href="/docs/byok">provider keys</a>.
      </>
    ),
  },
];

function Pricing({ settings }: { readonly settings: DiscoverySettings }): Child {
  const { feePercent, startingCredits } = settings;
  return (
    <section aria-labelledby="pricing">
      <h2 id="pricing">Pricing</h2>
      <p>
        Usage is billed at the providers' list prices, without markup. Credits are prepaid; a
        purchase adds a {feePercent}% fee.
      </p>
      <dl class="figures">
        <div>
          <dt>Model calls</dt>
          <dd class="value">List price</dd>
          <dd class="remark">
            as on the <a href="/models">models page</a>
          </dd>
        </div>
        <div>
          <dt>Buying credits</dt>
          <dd class="value">{feePercent}% fee</dd>
          <dd class="remark">no subscription</dd>
        </div>
        <div>
          <dt>To start</dt>
          <dd class="value">{creditsText(startingCredits).replace(/^.*\((.*)\)$/, "$1")}</dd>
          <dd class="remark">free, for each new account</dd>
        </div>
        <div>
          <dt>Own provider keys</dt>
          <dd class="value">$0.00</dd>
          <dd class="remark">billed by your provider</dd>
        </div>
      </dl>
    </section>
  );
}

function NextSteps({
  settings,
  access,
}: {
  readonly settings: DiscoverySettings;
  readonly access: ConsoleAccess | undefined;
}): Child {
  const hasSeparateDocs = !settings.docsUrl.startsWith(settings.baseUrl);
  return (
    <div class="parties">
      <section aria-labelledby="agents">
        <h2 id="agents">For agents</h2>
        <p>
          Read <a href="/auth.md">auth.md</a>. It explains how to get an API key, store it, call a
          model, pay, and hand the account to a human.
        </p>
      </section>
      <section aria-labelledby="people">
        <h2 id="people">For people</h2>
        <p>
          {access === undefined ? (
            <>
              Give an agent this address: it creates an account and gets a key. The{" "}
              <a href="/docs/quick-start">quick start</a> shows the first call.
            </>
          ) : (
            <>
              Give an agent this address, or use the gateway yourself:{" "}
              <a href={CONSOLE_PATH}>{access === "signed_in" ? "open the console" : "sign in"}</a>,
              create a workspace and copy its key. The <a href="/docs/api">API reference</a> lists
              every endpoint.
            </>
          )}
          {hasSeparateDocs ? (
            <>
              {" "}
              For guides, see the <a href={settings.docsUrl}>documentation</a>.
            </>
          ) : null}
        </p>
      </section>
    </div>
  );
}

function Footer({ settings }: { readonly settings: DiscoverySettings }): Child {
  const { operatorLinks = [] } = settings;
  return (
    <p>
      {PRODUCT_NAME} {settings.version}. Machine-readable: <a href="/llms.txt">llms.txt</a>,{" "}
      <a href="/openapi.yaml">openapi.yaml</a>.
      <LinkList links={operatorLinks} />
    </p>
  );
}
