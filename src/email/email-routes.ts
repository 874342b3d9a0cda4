// The page on which a person chooses which emails they get, and the page that lists the emails in development mode.

import { z } from "zod";
import { redirect } from "../http/pages/page-response.ts";
import { pageRoute, formRoute } from "../http/pages/page-routes.ts";
import { networksOf } from "../http/request/client-ip.ts";
import type { Route } from "../http/route.ts";
import type { Db } from "../store/db.ts";
import { type EmailLinks, emailMessage } from "./email-message.ts";
import { emailSettingsPage, sentEmailsPage } from "./email-pages.tsx";
import { EMAIL_CATEGORY_NAMES } from "./email-types.ts";
import { listEmails, listOptOuts, setOptOuts } from "./emails.ts";

const SETTINGS_PATH = "/emails";
const LISTED_MAX = 50;

export interface EmailRouteDeps {
  readonly db: Db;
  readonly links: EmailLinks;
  /** Lists the emails of all people. */
  readonly isDevelopment: boolean;
  readonly isSmtpSet: boolean;
}

export function emailRoutes(deps: EmailRouteDeps): readonly Route[] {
  return [
    showSettingsRoute(deps),
    changeSettingsRoute(deps),
    ...(deps.isDevelopment ? [listRoute(deps)] : []),
  ];
}

function showSettingsRoute({ db, isSmtpSet }: EmailRouteDeps): Route {
  return pageRoute({
    tag: "People",
    path: SETTINGS_PATH,
    id: "showEmailSettings",
    summary: "Show which emails you get",
    query: z.object({ saved: z.literal("true").optional() }),
    run: async ({ caller, query }) => {
      const optOuts = await listOptOuts(db, caller.personId);
      const isSaved = query.saved !== undefined;
      return emailSettingsPage({ user: caller, optOuts, isSaved, isSmtpSet });
    },
  });
}

function changeSettingsRoute({ db }: EmailRouteDeps): Route {
  return formRoute({
    tag: "People",
    path: SETTINGS_PATH,
    id: "changeEmailSettings",
    summary: "Choose which emails you get",
    body: z.object(
      Object.fromEntries(EMAIL_CATEGORY_NAMES.map((name) => [name, z.literal("on").optional()])),
    ),
    requestExample: { balance: "on" },
    run: async ({ caller: { personId }, body, clientIp, now }) => {
      const off = EMAIL_CATEGORY_NAMES.filter((name) => body[name] === undefined);
      const act = { personId, network: networksOf(clientIp)[1], now };
      await db.write((tx) => setOptOuts(tx, act, off));
      return redirect(`${SETTINGS_PATH}?saved=true`);
    },
  });
}

function listRoute({ db, links, isSmtpSet }: EmailRouteDeps): Route {
  return pageRoute({
    tag: "People",
    path: "/emails/_sent",
    id: "listEmails",
    summary: "List the emails of this gateway",
    run: async ({ caller }) => {
      const emails = await listEmails(db, LISTED_MAX);
      const listed = emails.map((email) => ({ email, message: emailMessage(email, links) }));
      return sentEmailsPage({ user: caller, listed, isSmtpSet });
    },
  });
}
