/** @jsxImportSource hono/jsx */
// The playground: sends a message to one model or to two side by side. The script of the page does the calls.
// They use a short-lived key.

import type { Child } from "hono/jsx";
import { personAct } from "../../activity/audit.ts";
import { Fault } from "../../base/fault.ts";
import { NANO_PER_USD } from "../../base/money/money.ts";
import { HOUR_MS } from "../../base/time.ts";
import { MARKDOWN_SCRIPT, PLAYGROUND_SCRIPT } from "../../http/pages/assets.ts";
import { Figures } from "../../http/pages/components/content.tsx";
import { faultText } from "../../http/pages/fault-text.ts";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { formRoute } from "../../http/pages/page-routes.ts";
import type { Route } from "../../http/route.ts";
import { MODEL_CALL_SCOPES } from "../../http/scopes.ts";
import { readKeyAllowance, replaceKeyForMember } from "../../keys/member-keys.ts";
import { consolePage, workspacePath } from "../console-layout.tsx";
import { AllowanceNotice, type KeyBlock, readKeyBlock } from "../keys/allowance-notice.tsx";
import type { KeyPageDeps } from "../keys/key-page-routes.ts";
import type { WorkspaceView } from "../require-access.ts";
import { AccountPath, CONSOLE_PAGE, workspacePage } from "../workspace-routes.ts";

interface PlaygroundView extends WorkspaceView {
  readonly snippets: { readonly baseUrl: string; readonly model: string };
  /** Undefined if the person can create keys, which the calls need. */
  readonly block: KeyBlock | undefined;
}

/** The least purchase that is offered if the balance is too low. */
const PURCHASE_USD = 10;

const APIS = [
  ["chat", "Chat Completions"],
  ["responses", "Responses"],
  ["messages", "Messages"],
  ["gemini", "Gemini"],
  ["images", "Images"],
  ["speech", "Speech"],
] as const;

const RESULT_FIGURES = [
  ["cost", "Cost"],
  ["tokens", "Tokens in / out"],
  ["first", "First token"],
  ["latency", "Total time"],
] as const;

const CODE_LANGUAGES = ["curl", "Python", "TypeScript"] as const;

function playgroundPage({ user, workspace, snippets, block }: PlaygroundView): PageLayout {
  const { accountId } = workspace;
  if (block !== undefined)
    return consolePage({
      title: "Playground",
      workspace,
      user,
      page: "/playground",
      main: <AllowanceNotice block={block} user={user} accountId={accountId} />,
    });
  return {
    ...consolePage({
      title: "Playground",
      workspace,
      user,
      page: "/playground",
      main: (
        <form
          class="playground"
          data-key-url={workspacePath(accountId, "/playground")}
          data-logs-url={workspacePath(accountId, "/logs")}
          data-buy-url={`${workspacePath(accountId, "/billing")}/buy`}
          data-csrf={user.csrf}
          data-base-url={snippets.baseUrl}
        >
          <noscript>
            <p class="notice warn">
              The playground needs scripts. <a href="/docs/quick-start">Call a model with curl</a>{" "}
              instead.
            </p>
          </noscript>
          <RequestFields model={snippets.model} logsPath={workspacePath(accountId, "/logs")} />
          <div class="playground-results">
            <div class="playground-runs">
              <ModelRun field="model" />
              <ModelRun field="second-model" isHidden />
            </div>
            <Code />
          </div>
        </form>
      ),
    }),
    scripts: [MARKDOWN_SCRIPT, PLAYGROUND_SCRIPT],
  };
}

function RequestFields({
  model,
  logsPath,
}: {
  readonly model: string;
  readonly logsPath: string;
}): Child {
  return (
    <div class="card playground-request">
      <ModelFields model={model} />
      <label for="api">API</label>
      <select id="api" name="api">
        {APIS.map(([value, label]) => (
          <option value={value}>{label}</option>
        ))}
      </select>
      <label for="system">System prompt</label>
      <textarea id="system" name="system" rows={2} />
      <label for="message">Message</label>
      <textarea id="message" name="message" rows={4} required>
        Hello. What can you do?
      </textarea>
      <div class="row">
        <div>
          <label for="max-tokens">Output limit (tokens)</label>
          <input id="max-tokens" name="maxTokens" type="number" min="1" value="500" required />
        </div>
        <div>
          <label for="temperature">Temperature</label>
          <input
            id="temperature"
            name="temperature"
            type="number"
            min="0"
            max="2"
            step="0.1"
            placeholder="default"
          />
        </div>
      </div>
      <details>
        <summary>Image and tools</summary>
        <label for="image">Image</label>
        <input
          id="image"
          name="image"
          type="file"
          accept="image/png,image/jpeg,image/webp,image/gif"
        />
        <label for="tools">Tools (JSON array, in the format of the API)</label>
        <textarea id="tools" name="tools" rows={5} spellcheck={false} class="code" />
      </details>
      <RunFields />
      <p class="note">
        Calls use a key of this workspace named Playground. It can spend at most $1.00 and expires
        after an hour. Its calls are in <a href={logsPath}>Logs</a>.
      </p>
    </div>
  );
}

function ModelFields({ model }: { readonly model: string }): Child {
  return (
    <>
      <label for="model">Model</label>
      <input id="model" name="model" list="models" value={model} required autocomplete="off" />
      <p class="hint" data-price="model" />
      <label for="second-model">Compare with (optional)</label>
      <input
        id="second-model"
        name="secondModel"
        list="models"
        placeholder="A second model"
        autocomplete="off"
      />
      <p class="hint" data-price="second-model" />
      <datalist id="models" />
    </>
  );
}

function RunFields(): Child {
  return (
    <>
      <div class="option">
        <input type="checkbox" id="conversation" name="conversation" />
        <label for="conversation">Continue the conversation</label>
      </div>
      <div class="option">
        <input type="checkbox" id="markdown" name="markdown" checked />
        <label for="markdown">Format Markdown</label>
      </div>
      <div class="row">
        <button type="submit" title="Ctrl+Enter">
          Run
        </button>
        <button type="button" class="secondary" name="stop" hidden>
          Stop
        </button>
      </div>
    </>
  );
}

/** The reply of one model. The id of the field with the model is in `data-run`. */
function ModelRun({
  field,
  isHidden = false,
}: {
  readonly field: string;
  readonly isHidden?: boolean;
}): Child {
  const titleId = `${field}-reply`;
  return (
    <div class="playground-result" data-run={field} hidden={isHidden}>
      <p class="error" role="alert" data-error hidden />
      <a class="button" href={`#${titleId}`} data-buy={PURCHASE_USD} hidden>
        Buy credits
      </a>
      <p class="visually-hidden" role="status" data-status />
      <div class="card">
        <div class="card-head">
          <h2 id={titleId}>Reply</h2>
          <a href={`#${titleId}`} data-call hidden>
            Open this call
          </a>
        </div>
        <div class="playground-turns" data-turns />
        <div
          class="playground-reply"
          role="region"
          aria-labelledby={titleId}
          tabindex={0}
          data-reply
        >
          <p class="muted">The reply appears here while it streams.</p>
        </div>
        <div class="playground-images" data-images />
      </div>
      <Figures
        figures={RESULT_FIGURES.map(([name, label]) => ({
          label,
          value: <span data-figure={name}>–</span>,
        }))}
      />
      <details class="card">
        <summary>Raw events</summary>
        <pre tabindex={0}>
          <code data-events>Run a request to see its events.</code>
        </pre>
      </details>
    </div>
  );
}

function Code(): Child {
  return (
    <details class="card">
      <summary>Show as code</summary>
      <label for="language">Language</label>
      <select id="language" name="language">
        {CODE_LANGUAGES.map((language) => (
          <option value={language}>{language}</option>
        ))}
      </select>
      <div class="code-block" data-copy="">
        <pre tabindex={0}>
          <code data-code />
        </pre>
      </div>
    </details>
  );
}

interface PlaygroundDeps extends KeyPageDeps {
  readonly snippets: { readonly baseUrl: string; readonly model: string };
}

const KEY_NAME = "Playground";
const KEY_LIMIT = NANO_PER_USD;
const KEY_LIFETIME_MS = HOUR_MS;
const PATH = "/console/{account}/playground";

export function playgroundRoutes(deps: PlaygroundDeps): readonly Route[] {
  return [showRoute(deps), keyRoute(deps)];
}

function showRoute(deps: PlaygroundDeps): Route {
  return workspacePage(deps, {
    path: PATH,
    id: "showPlayground",
    summary: "Show the playground",
    permission: "keys.create",
    run: async ({ view, account, now }) => {
      const { personId } = view.user;
      const member = { accountId: account, personId, replacing: KEY_NAME, now };
      const block = await readKeyBlock(deps.db, member);
      return playgroundPage({ ...view, snippets: deps.snippets, block });
    },
  });
}

function keyRoute(deps: PlaygroundDeps): Route {
  return formRoute({
    ...CONSOLE_PAGE,
    path: PATH,
    id: "createPlaygroundKey",
    summary: "Create the key of the playground",
    params: AccountPath,
    responses: { 200: { description: "The key.", contentType: "application/json" } },
    run: async ({ caller, params, clientIp, now }) => {
      try {
        const act = personAct(params.account, caller.personId, { clientIp, now });
        const settings = {
          name: KEY_NAME,
          expiresAt: now + KEY_LIFETIME_MS,
          scopes: MODEL_CALL_SCOPES,
        };
        const { personId } = caller;
        const member = { accountId: params.account, personId, replacing: KEY_NAME, now };
        const { raw } = await deps.db.write(async (tx) => {
          const allowance = await readKeyAllowance(tx, member);
          const left = allowance.kind === "left" ? allowance.left : KEY_LIMIT;
          const limit = left > 0n && left < KEY_LIMIT ? left : KEY_LIMIT;
          return await replaceKeyForMember(tx, act, deps.keys, { ...settings, limit });
        });
        const body = { api_key: raw, expires_at: now + KEY_LIFETIME_MS };
        return Response.json(body, { headers: { "cache-control": "no-store" } });
      } catch (error) {
        // A person who is not a member gets the error page: no page of this workspace links here.
        if (!(error instanceof Fault) || error.status === 404) throw error;
        return Response.json({ error: faultText(error) }, { status: error.status });
      }
    },
  });
}
