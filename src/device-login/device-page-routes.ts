// The person's side of a sign-in with a browser: GET shows a form and changes nothing, and a code in the link is only filled in
// (RFC 8628, section 5.4).

import { z } from "zod";
import { personAct } from "../activity/audit.ts";
import { Fault } from "../base/fault.ts";
import { pageResponse } from "../http/pages/page-response.ts";
import { pageRoute, formRoute } from "../http/pages/page-routes.ts";
import { networksOf } from "../http/request/client-ip.ts";
import type { Route, SessionUser } from "../http/route.ts";
import type { Keys } from "../keys/keys.ts";
import { findNewKeyProblem } from "../keys/member-keys.ts";
import type { Db } from "../store/db.ts";
import { DEVICE_PATH } from "./device-login-routes.ts";
import {
  deviceKeySettings,
  type DeviceLogin,
  type DeviceLogins,
  type DeviceViewer,
} from "./device-login.ts";
import {
  approvedPage,
  codeEntryPage,
  type ConsentPageProps,
  consentPage,
  deniedPage,
} from "./device-pages.tsx";
import { readKeyLimit } from "./key-limit.tsx";
import { listKeyWorkspaces } from "./key-workspaces.tsx";

export interface DevicePageDeps {
  readonly db: Db;
  readonly deviceLogins: DeviceLogins;
  readonly keys: Keys;
}

const CODE_MAX = 20;
const UNKNOWN_CODE =
  "No program waits for this code. It may have expired or been used: compare it with your device, or start again there.";

const DeviceForm = z.object({
  do: z.enum(["find", "approve", "deny"]),
  user_code: z.string().max(CODE_MAX),
  account: z.string().max(100).optional(),
  limit_usd: z.string().max(40).optional(),
  limit_window: z.string().max(10).optional(),
});
type DeviceForm = z.infer<typeof DeviceForm>;

interface Visit {
  readonly user: SessionUser;
  readonly viewer: DeviceViewer;
  readonly clientIp: string;
}

export function devicePageRoutes(deps: DevicePageDeps): readonly Route[] {
  return [codeRoute(), decideRoute(deps)];
}

function codeRoute(): Route {
  return pageRoute({
    tag: "People",
    path: DEVICE_PATH,
    id: "showDeviceSignIn",
    summary: "Enter the code of a device",
    query: z.object({ user_code: z.string().max(CODE_MAX).optional().catch(undefined) }),
    run: ({ caller, query }) => codeEntryPage({ user: caller, userCode: query.user_code ?? "" }),
  });
}

function decideRoute(deps: DevicePageDeps): Route {
  return formRoute({
    tag: "People",
    path: DEVICE_PATH,
    id: "decideDeviceSignIn",
    summary: "Approve or decline the sign-in of a device",
    body: DeviceForm,
    requestExample: { do: "find", user_code: "WDJB-MJHT" },
    run: async ({ caller, body, clientIp, now }) => {
      const viewer = {
        personId: caller.personId,
        network: networksOf(clientIp)[1],
        userCode: body.user_code,
        now,
      };
      try {
        return await decide(deps, body, { user: caller, viewer, clientIp });
      } catch (error) {
        if (!(error instanceof Fault) || error.code !== "rate_limited") throw error;
        const { status, publicMessage } = error;
        return pageResponse(
          codeEntryPage({ user: caller, userCode: body.user_code, error: publicMessage }),
          { status },
        );
      }
    },
  });
}

async function decide(deps: DevicePageDeps, form: DeviceForm, visit: Visit): Promise<Response> {
  const { db, deviceLogins } = deps;
  const { viewer } = visit;
  if (form.do === "find") {
    const login = await db.write((tx) => deviceLogins.find(tx, viewer));
    return login === undefined ? unknownCode(visit) : consent(deps, login, visit);
  }
  if (form.do === "deny") {
    const login = await db.write((tx) => deviceLogins.deny(tx, viewer));
    return login === undefined ? unknownCode(visit) : pageResponse(deniedPage(login));
  }
  const accountId = form.account ?? "";
  const act = personAct(accountId, viewer.personId, { clientIp: visit.clientIp, now: viewer.now });
  try {
    const limit = readKeyLimit(form);
    const settings = deviceKeySettings("check", limit, viewer.now);
    const problem = await findNewKeyProblem(db, act, deps.keys, settings);
    if (problem !== undefined) throw problem;
    const login = await db.write((tx) =>
      deviceLogins.approve(tx, { ...viewer, ...limit, accountId }),
    );
    return login === undefined ? unknownCode(visit) : pageResponse(approvedPage(login, accountId));
  } catch (error) {
    if (!(error instanceof Fault) || error.code === "rate_limited") throw error;
    const login = await db.write((tx) => deviceLogins.find(tx, viewer));
    return login === undefined
      ? unknownCode(visit)
      : consent(deps, login, visit, {
          values: form,
          error: { message: error.publicMessage, field: error.options.param },
        });
  }
}

function unknownCode({ user, viewer }: Visit): Response {
  return pageResponse(codeEntryPage({ user, userCode: viewer.userCode, error: UNKNOWN_CODE }), {
    status: 404,
  });
}

async function consent(
  deps: DevicePageDeps,
  login: DeviceLogin,
  { user, viewer }: Visit,
  rejected?: Pick<ConsentPageProps, "values" | "error">,
): Promise<Response> {
  const workspaces = await listKeyWorkspaces(deps.db, viewer.personId);
  const { network } = viewer;
  return pageResponse(
    consentPage({
      user,
      login,
      userCode: viewer.userCode.toUpperCase(),
      workspaces,
      network,
      ...rejected,
    }),
    { status: rejected === undefined ? 200 : 400 },
  );
}
