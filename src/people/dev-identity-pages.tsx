/** @jsxImportSource hono/jsx */
// The pages of the development identity provider, marked as such so that they are not taken for a real sign-in.

import { createHash } from "node:crypto";
import type { Child } from "hono/jsx";
import { STYLESHEET } from "../http/pages/assets.ts";
import { Tag } from "../http/pages/components/content.tsx";

// In the page, because this server has its own origin.
const STYLE = STYLESHEET.body;
const STYLE_HASH = createHash("sha256").update(STYLE).digest("base64");

/** Browsers check the redirect after a form against `form-action`, so it needs the gateway's origin. */
export function devPageHeaders(redirectOrigin: string): Readonly<Record<string, string>> {
  return {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; form-action 'self' ${redirectOrigin}; base-uri 'none'; frame-ancestors 'none'`,
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
  };
}

interface SignInFormState {
  readonly email: string;
  readonly error?: string;
}

export function emailPage(uid: string, { email, error }: SignInFormState): string {
  return layout(
    "Sign in",
    <>
      <h1>Sign in to Postern</h1>
      <p>Enter any email address. A sign-in code is printed on the terminal that runs Postern.</p>
      <form method="post" action={`/interaction/${uid}`}>
        <label for="email">Email</label>
        <input
          id="email"
          name="email"
          type="email"
          value={email}
          autocomplete="email"
          required
          autofocus
        />
        <FieldError text={error} />
        <div class="actions">
          <button type="submit">Continue</button>
        </div>
      </form>
    </>,
  );
}

export function codePage(uid: string, { email, error }: SignInFormState): string {
  return layout(
    "Enter the code",
    <>
      <h1>Enter the code</h1>
      <p>
        The code for <strong>{email}</strong> was printed on the terminal that runs Postern.
      </p>
      <form method="post" action={`/interaction/${uid}`}>
        <label for="code">Six-digit code</label>
        <input
          id="code"
          name="code"
          class="code-digits"
          inputmode="numeric"
          pattern="[0-9 ]*"
          autocomplete="one-time-code"
          required
          autofocus
        />
        <FieldError text={error} />
        <div class="actions">
          <button type="submit">Sign in</button>
        </div>
      </form>
      <p class="hint">
        <a href={`/interaction/${uid}`}>Use another email address</a>
      </p>
    </>,
  );
}

export function errorPage(reason: string): string {
  return layout(
    "Sign-in failed",
    <>
      <h1>Sign-in failed</h1>
      <p>{reason}</p>
    </>,
  );
}

function FieldError({ text }: { readonly text: string | undefined }): Child {
  return text === undefined ? null : (
    <p class="error" role="alert">
      {text}
    </p>
  );
}

function layout(title: string, main: Child): string {
  const page: { readonly toString: () => string } = (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <title>{title}</title>
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <style dangerouslySetInnerHTML={{ __html: STYLE }} />
      </head>
      <body class="plain">
        <header class="site-header">
          <span class="brand">Postern</span>
          <Tag tone="warn">Development sign-in</Tag>
        </header>
        <main>{main}</main>
      </body>
    </html>
  );
  return `<!doctype html>${page.toString()}\n`;
}
