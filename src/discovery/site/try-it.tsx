/** @jsxImportSource hono/jsx */
// The form of an endpoint's page that sends a request with the reader's own key. Hidden without scripts.

import type { Child } from "hono/jsx";
import type { Operation, Parameter } from "../openapi/openapi-types.ts";

export interface TryIt {
  readonly method: string;
  readonly path: string;
  readonly needsKey: boolean;
  readonly parameters: readonly Pick<Parameter, "name" | "in" | "required">[];
  readonly body: string | undefined;
  readonly contentType: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
}

export interface Endpoint {
  readonly path: string;
  readonly method: string;
  readonly operation: Operation;
}

const HEADERS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  createMessage: { "anthropic-version": "2023-06-01" },
  callMcp: { accept: "application/json, text/event-stream" },
};

export function tryItOf({ path, method, operation }: Endpoint): TryIt {
  const [contentType, media] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
  const example = media?.example ?? (contentType === undefined ? undefined : {});
  return {
    method,
    path,
    needsKey: operation.security.length > 0,
    parameters: (operation.parameters ?? []).filter((each) => each.in !== "header"),
    body: example === undefined ? undefined : JSON.stringify(example, null, 2),
    contentType,
    headers: HEADERS[operation.operationId] ?? {},
  };
}

export function TryItForm({ tryIt }: { readonly tryIt: TryIt }): Child {
  const { method, path, needsKey, parameters, body, contentType, headers } = tryIt;
  return (
    <form
      class="try-it"
      hidden
      data-method={method}
      data-path={path}
      data-content-type={contentType}
      data-headers={JSON.stringify(headers)}
    >
      <h2 id="try-it">Try it</h2>
      {needsKey ? (
        <label>
          API key
          <input type="password" name="key" autocomplete="off" spellcheck={false} />
        </label>
      ) : null}
      {parameters.map((parameter) => (
        <label>
          {parameter.name}
          <input
            name={`${parameter.in}.${parameter.name}`}
            required={parameter.required === true}
            autocomplete="off"
            spellcheck={false}
          />
        </label>
      ))}
      {body === undefined ? null : (
        <label>
          Body
          <textarea name="body" rows={Math.min(16, body.split("\n").length + 1)} spellcheck={false}>
            {body}
          </textarea>
        </label>
      )}
      <button type="submit">Send request</button>
      <p class="note">
        Sends a real request to this gateway{needsKey ? ", which may cost credits" : ""}. The key
        stays in this tab.
      </p>
      <div class="try-it-result" role="status" aria-live="polite" />
    </form>
  );
}
