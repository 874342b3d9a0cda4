/** @jsxImportSource hono/jsx */
// The pages of the development identity provider, marked as such so that they are not taken for a real sign-in.

import { createHash } from "node:crypto";
import type { Child } from "hono/jsx";

const STYLE = `:root{color-scheme:light dark}
body{margin:0 auto;padding:4rem 1.25rem;max-width:26rem;font:1.0625rem/1.55 system-ui,sans-serif;overflow-wrap:anywhere}
.flag{display:inline-block;padding:.2rem .6rem;border:1px solid;border-radius:1rem;font-size:.85rem}
h1{font-size:1.6rem;font-weight:600;line-height:1.2}
label{display:block;margin:1.25rem 0 .3rem;font-weight:600}
input{box-sizing:border-box;width:100%;min-height:2.75rem;padding:.5rem .7rem;border:1px solid #8d8577;border-radius:6px;font:inherit}
input[name=code]{font-family:ui-monospace,monospace;font-size:1.5rem;letter-spacing:.2em}
button{margin-top:1.25rem;min-height:2.75rem;padding:.6rem 1.4rem;border:0;border-radius:6px;background:#1d5d53;color:#fff;font:600 1rem system-ui,sans-serif;cursor:pointer}
:focus-visible{outline:3px solid #4a9a8c;outline-offset:2px}
.error{color:light-dark(#b3261e,#ff8a7d);font-weight:600}
.hint{opacity:.75}`;

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
        <button type="submit">Continue</button>
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
          inputmode="numeric"
          pattern="[0-9 ]*"
          autocomplete="one-time-code"
          required
          autofocus
        />
        <FieldError text={error} />
        <button type="submit">Sign in</button>
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
      <body>
        <main>
          <p class="flag">Development sign-in</p>
          {main}
        </main>
      </body>
    </html>
  );
  return `<!doctype html>${page.toString()}\n`;
}
