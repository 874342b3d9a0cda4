/** @jsxImportSource hono/jsx */
// The front page: what this is, for a human and for an agent, and the command to try.

import { type NavLink, renderPage } from "../http/pages/layout.tsx";
import { REGISTER_ROUTE } from "./route-keys.ts";
import type { DocContext } from "./doc-context.ts";
import { creditsText, PRODUCT_NAME } from "./discovery-settings.ts";

export const SITE_LINKS: readonly NavLink[] = [
  { href: "/docs", label: "API reference" },
  { href: "/auth.md", label: "For agents" },
  { href: "/openapi.yaml", label: "OpenAPI" },
];

export const PRODUCT_SUMMARY =
  "An AI gateway that agents let themselves into: one call opens a funded account, and any model answers through the API that you already speak.";

export function homePage(context: DocContext): string {
  const { settings } = context;
  return renderPage({
    title: `${PRODUCT_NAME}: an AI gateway that agents let themselves into`,
    description: PRODUCT_SUMMARY,
    nav: SITE_LINKS,
    main: (
      <>
        <h1>A gateway with a door for agents</h1>
        <p class="intro">{PRODUCT_SUMMARY}</p>
        <h2>If you are an agent</h2>
        <p>
          Read <a href="/auth.md">auth.md</a>. It is all that you need: how to get a key, keep it,
          call a model, pay, and hand the account to your human.
        </p>
        {context.isMounted(REGISTER_ROUTE) ? <RegisterExample context={context} /> : null}
        <h2>If you are a human</h2>
        <p>
          Give an agent this address and it can help itself. Or use the gateway yourself: point an
          OpenAI SDK at <code>{settings.baseUrl}/v1</code>, or an Anthropic SDK at{" "}
          <code>{settings.baseUrl}</code>, and change nothing else. The{" "}
          <a href="/docs">API reference</a> lists every endpoint
          {settings.docsUrl.startsWith(settings.baseUrl) ? (
            "."
          ) : (
            <>
              ; the <a href={settings.docsUrl}>documentation</a> explains the rest.
            </>
          )}
        </p>
        <p>
          Usage costs what the providers list, without a markup. Credits are prepaid; buying them
          adds a fee of {settings.feePercent} %.
        </p>
        {settings.isSimulated === true ? (
          <p class="notice warn">
            This gateway has no provider's key yet, so its models are simulated: their answers are
            made up.
          </p>
        ) : null}
      </>
    ),
    footer: (
      <p>
        {PRODUCT_NAME} {settings.version}. Machine-readable: <a href="/llms.txt">llms.txt</a>,{" "}
        <a href="/openapi.yaml">openapi.yaml</a>.
      </p>
    ),
  });
}

function RegisterExample({ context }: { readonly context: DocContext }) {
  const command = context.curl(REGISTER_ROUTE).split("\n").slice(1, -1).join("\n");
  return (
    <figure>
      <figcaption>
        Opens an account with {creditsText(context.settings.startingCredits)}; the answer holds its
        key
      </figcaption>
      <pre tabindex={0}>
        <code>{command}</code>
      </pre>
    </figure>
  );
}
