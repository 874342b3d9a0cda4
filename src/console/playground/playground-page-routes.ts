// The routes of the playground: the page, and the short-lived key that its calls use.

import { personAct } from "../../activity/audit.ts";
import { Fault } from "../../base/fault.ts";
import { NANO_PER_USD } from "../../base/money/money.ts";
import { HOUR_MS } from "../../base/time.ts";
import { faultText } from "../../http/pages/fault-text.ts";
import { formRoute } from "../../http/pages/page-routes.ts";
import type { Route } from "../../http/route.ts";
import { MODEL_CALL_SCOPES } from "../../http/scopes.ts";
import { readKeyAllowance, replaceKeyForMember } from "../../keys/member-keys.ts";
import { readKeyBlock } from "../keys/allowance-notice.tsx";
import type { KeyPageDeps } from "../keys/key-page-routes.ts";
import { AccountPath, CONSOLE_PAGE, workspacePage } from "../workspace-routes.ts";
import { playgroundPage } from "./playground-page.tsx";

export interface PlaygroundDeps extends KeyPageDeps {
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
