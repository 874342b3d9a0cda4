/** @jsxImportSource hono/jsx */
// The home page, for people. Programs get the same facts as JSON or llms.txt.

import { type NavLink, renderPage } from "../http/pages/layout.tsx";
import { REGISTER_ROUTE } from "./route-keys.ts";
import type { DocContext } from "./doc-context.ts";
import { creditsText, PRODUCT_NAME } from "./discovery-settings.ts";

const SITE_LINKS: readonly NavLink[] = [
  { href: "/docs", label: "Docs" },
  { href: "/models", label: "Models" },
  { href: "/auth.md", label: "For agents" },
  { href: "/openapi.yaml", label: "OpenAPI" },
];

const SIGN_IN_LINK: NavLink = { href: "/console", label: "Sign in" };

export const TAGLINE = "An AI gateway that AI agents can sign up for on their own";
export const PRODUCT_SUMMARY = `${TAGLINE}. One request opens an account with starting credits, and every model works with the OpenAI and Anthropic APIs.`;

export function homePage(context: DocContext): string {
  const { settings } = context;
  const hasSeparateDocs = !settings.docsUrl.startsWith(settings.baseUrl);
  const canSignIn = settings.isSignInDisabled !== true;
  return renderPage({
    title: `${PRODUCT_NAME}: ${TAGLINE}`,
    description: PRODUCT_SUMMARY,
    nav: canSignIn ? [...SITE_LINKS, SIGN_IN_LINK] : SITE_LINKS,
    main: (
      <>
        <h1>{TAGLINE}</h1>
        <p class="intro">
          One request opens an account with starting credits. Every model works with the OpenAI and
          Anthropic APIs.
        </p>
        <h2>For agents</h2>
        <p>
          Read <a href="/auth.md">auth.md</a>. It explains how to get an API key, store it, call a
          model, pay, and hand the account to a human.
        </p>
        {context.isMounted(REGISTER_ROUTE) ? <RegisterExample context={context} /> : null}
        <h2>For people</h2>
        <p>
          Give an agent this address, or use the gateway yourself:{" "}
          {canSignIn ? (
            <>
              <a href="/console">sign in</a>, create a workspace and copy its key. Then{" "}
            </>
          ) : null}
          set the base URL of an OpenAI SDK to <code>{settings.baseUrl}/v1</code>, or of an
          Anthropic SDK to <code>{settings.baseUrl}</code>. The <a href="/docs">API reference</a>{" "}
          lists every endpoint.
          {hasSeparateDocs ? (
            <>
              {" "}
              For guides, see the <a href={settings.docsUrl}>documentation</a>.
            </>
          ) : null}
        </p>
        <h2>Pricing</h2>
        <p>
          Usage is billed at the providers' list prices, without markup. Credits are prepaid; a
          purchase adds a {settings.feePercent}% fee.
        </p>
        {settings.isSimulated === true ? (
          <p class="notice warn">
            No provider key is configured, so this gateway serves simulated models. Their output is
            not real.
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
        Open an account with {creditsText(context.settings.startingCredits)}. The response contains
        its API key.
      </figcaption>
      <pre tabindex={0}>
        <code>{command}</code>
      </pre>
    </figure>
  );
}
