// Who may see and change what in the console.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { hasPermission, type Permission, type Role, roleOf } from "../../src/accounts/members.ts";
import { consoleRoutes } from "../../src/console/console-routes.ts";
import { requiresSession } from "../../src/http/route.ts";
import {
  createUser,
  makeDeveloper,
  makeMember,
  type TestUser,
  visitPage,
} from "../billing/console-user.ts";
import { testOn } from "../support/full.ts";
import { describeEachStore } from "../support/stores/stores.ts";
import { type ConsoleFixture, createConsoleFixture } from "./console-fixture.ts";

type Form = Readonly<Record<string, string>>;

/** The permission of each page. */
const PAGE_PERMISSIONS: Readonly<Record<string, Permission>> = {
  showWorkspace: "workspace.read",
  showWorkspaceUsage: "usage.read",
  exportWorkspaceUsage: "usage.read",
  showWorkspaceLogs: "usage.read",
  showWorkspaceCall: "usage.read",
  showWorkspaceCallTexts: "prompts.read",
  exportWorkspaceLogs: "usage.read",
  showWorkspaceAgentSessions: "usage.read",
  showWorkspaceBatches: "batches.manage",
  downloadWorkspaceBatchResults: "batches.manage",
  showWorkspaceAgentSession: "usage.read",
  searchWorkspace: "keys.read",
  showWorkspaceKeys: "keys.read",
  showWorkspaceKey: "keys.read",
  showConnectedApps: "keys.read",
  showWorkspaceMembers: "members.read",
  showWorkspaceBudgets: "budgets.read",
  showStoredResponses: "responses.read",
  showWorkspaceBilling: "billing.read",
  showCreditPurchase: "billing.buy",
  showDevelopmentCards: "billing.auto_top_up",
  showWorkspaceProviderKeys: "provider_keys.read",
  showWorkspaceProviderKey: "provider_keys.read",
  showNewProviderKey: "provider_keys.change",
  showPresets: "presets.read",
  showGuardrails: "guardrails.read",
  showSinks: "sinks.read",
  showMcpServers: "workspace.read",
  showWorkspaceSso: "sso.read",
  showDirectorySync: "sso.read",
  showWorkspaceWebhooks: "webhooks.read",
  showWebhookDeliveries: "webhooks.read",
  showWorkspaceAudit: "audit.read",
  exportWorkspaceAudit: "audit.read",
  exportWorkspaceAuditJson: "audit.read",
  showAuditStream: "audit.read",
  exportWorkspaceInvoices: "billing.read",
  exportLedgerProof: "billing.read",
  showWorkspaceSettings: "workspace.read",
  showPlayground: "keys.create",
  downloadWorkspaceExport: "workspace.export",
};

/** The permission of each form, with form fields that change nothing. */
const FORM_PERMISSIONS: Readonly<Record<string, readonly (readonly [Permission, Form])[]>> = {
  closeWorkspace: [["workspace.close", { do: "close", confirm: "another name" }]],
  renameWorkspace: [["workspace.rename", { name: "x".repeat(200) }]],
  changeTimeZone: [["workspace.read", { time_zone: "nowhere" }]],
  createPlaygroundKey: [["keys.create", {}]],
  createWorkspaceKey: [["keys.create", { do: "mint", limit_usd: "1" }]],
  changeWorkspaceKey: [
    ["keys.change", { do: "change", limit_usd: "1" }],
    ["keys.revoke", { do: "revoke" }],
  ],
  changeWorkspaceWebhook: [["webhooks.change", { do: "replay", delivery: "dlv_none" }]],
  changeWorkspaceMembers: [
    ["members.invite", { do: "invite", email: "not an address" }],
    ["members.invite", { do: "withdraw", invitation: "inst_none" }],
    ["members.remove", { do: "remove", person: "usr_none" }],
    ["members.change", { do: "change", person: "usr_none", role: "viewer" }],
    ["workspace.transfer", { do: "hand_over", person: "usr_none" }],
  ],
  changeStoredResponses: [["responses.change", { store: "forever", retention_days: "7" }]],
  changeWorkspaceBudgets: [["budgets.change", { daily_usd: "not an amount", monthly_usd: "" }]],
  changeWorkspaceBilling: [
    ["billing.buy", { do: "buy", amount_usd: "not an amount", once: "x" }],
    ["billing.buy", { do: "void", invoice: "inv_none" }],
    ["billing.auto_top_up", { do: "save_method" }],
    ["billing.auto_top_up", { do: "remove_method" }],
    [
      "billing.auto_top_up",
      { do: "allow", threshold_usd: "5", amount_usd: "x", monthly_ceiling_usd: "50" },
    ],
    ["billing.auto_top_up", { do: "turn_off" }],
    ["billing.buy", { do: "alert", low_usd: "not an amount" }],
  ],
  revokeConnectedApp: [["keys.revoke", { key: "key_none" }]],
  stopWorkspaceAgentSession: [["agent_sessions.stop", {}]],
  cancelWorkspaceBatch: [["batches.manage", {}]],
  saveDevelopmentCard: [["billing.auto_top_up", { card: "works" }]],
  changeWorkspaceProviderKeys: [
    ["provider_keys.change", { do: "add", provider: "sim", api_key: "short" }],
    ["provider_keys.change", { do: "remove", provider_key: "pk_none" }],
  ],
  changeMcpServers: [
    [
      "mcp_servers.change",
      {
        do: "save",
        name: "Not a name",
        url: "x",
        allowed_tools: "",
        header_name: "",
        header_value: "",
      },
    ],
    ["mcp_servers.change", { do: "delete", name: "none" }],
  ],
  changeGuardrails: [
    ["guardrails.change", { do: "patterns", name: "Not a name", action: "mask" }],
    ["guardrails.change", { do: "delete", name: "none" }],
  ],
  changeSinks: [
    ["sinks.change", { do: "otlp", name: "Not a name", url: "not an address" }],
    ["sinks.change", { do: "delete", name: "none" }],
  ],
  changePresets: [
    ["presets.change", { do: "save", name: "Not a name", model: "", system: "", more: "" }],
    ["presets.change", { do: "delete", name: "none" }],
  ],
  changeWorkspaceSso: [
    ["sso.change", { do: "add_domain", domain: "not a domain" }],
    ["sso.change", { do: "check_domain", domain: "none.example" }],
    ["sso.change", { do: "remove_domain", domain: "none.example" }],
    ["sso.change", { do: "save", issuer: "ftp://example.com", client_id: "c" }],
    ["sso.change", { do: "remove" }],
    ["sso.change", { do: "require" }],
    ["sso.change", { do: "allow" }],
  ],
  changeDirectorySync: [
    ["sso.change", { do: "create_token" }],
    ["sso.change", { do: "save", fallback_role: "viewer", keys: "revoke" }],
    ["sso.change", { do: "set_role", group: "scg_none", role: "admin" }],
    ["sso.change", { do: "disable" }],
  ],
  changeAuditStream: [
    ["audit.stream", { do: "save", kind: "webhook", url: "not an address" }],
    ["audit.stream", { do: "remove" }],
  ],
  changeWorkspaceWebhooks: [
    ["webhooks.change", { do: "add", url: "not an address" }],
    ["webhooks.change", { do: "remove", webhook: "whk_none" }],
    ["webhooks.change", { do: "test", webhook: "whk_none" }],
    ["webhooks.change", { do: "enable", webhook: "whk_none" }],
  ],
};

describeEachStore((store) => {
  const testOnce = testOn(store);
  describe(`access to the console on ${store}`, () => {
    let fixture: ConsoleFixture;
    beforeAll(async () => {
      fixture = await createConsoleFixture(store);
    });
    afterAll(() => fixture.gateway.stop());

    test("redirects an anonymous visitor to sign in, and back", async () => {
      const { gateway, account } = fixture;
      const response = await fetch(`${gateway.url}/console/${account.id}/keys`, {
        redirect: "manual",
      });
      expect(response.status).toBe(303);
      expect(response.headers.get("location")).toContain("/signin?return_to=%2Fconsole%2F");
    });

    test("returns 404 for every page of another workspace", async () => {
      const { gateway, account, owner, otherAccount, otherOwner } = fixture;
      for (const page of ["", "/keys", "/usage", "/logs", "/members"]) {
        const path = `/console/${account.id}${page}`;
        expect((await visitPage(gateway, path, otherOwner)).status).toBe(404);
        const otherPath = `/console/${otherAccount.id}${page}`;
        expect((await visitPage(gateway, otherPath, owner)).status).toBe(404);
      }
    });

    test("returns 404 for every form of another workspace", async () => {
      const { gateway, account, owner, otherOwner } = fixture;
      for (const [page, form] of [
        ["/keys", { do: "mint" }],
        ["/keys/key_x", { do: "revoke" }],
        ["/keys/key_x", { do: "change", limit_usd: "1" }],
        ["/members", { do: "invite", email: "x@example.com" }],
        ["/members", { do: "withdraw", invitation: "inst_x" }],
        ["/members", { do: "remove", person: owner.personId }],
        ["/members", { do: "hand_over", person: otherOwner.personId }],
        ["/members", { do: "hand_over", person: owner.personId }],
      ] as const)
        expect(
          (await visitPage(gateway, `/console/${account.id}${page}`, otherOwner, form)).status,
        ).toBe(404);
      expect(await roleOf(gateway.server.db, account.id, owner.personId)).toBe("owner");
    });

    test("does not reveal whether a workspace exists to a person who leaves it without being a member", async () => {
      const { gateway, account, otherOwner } = fixture;
      for (const id of [account.id, "acct_none"]) {
        const path = `/console/${id}/members`;
        const left = await visitPage(gateway, path, otherOwner, { do: "leave" });
        expect([left.status, left.location]).toEqual([303, "/console"]);
      }
    });

    test("allows each role the forms that its permissions list", async () => {
      const { gateway, account, owner, developer } = fixture;
      for (const [permission, page, form] of [
        ["keys.create", "/keys", { do: "mint", name: "from the console", limit_usd: "1" }],
        ["members.invite", "/members", { do: "invite", email: "guest@example.com" }],
        ["members.remove", "/members", { do: "remove", person: "usr_none" }],
        ["workspace.transfer", "/members", { do: "hand_over", person: "usr_none" }],
        ["workspace.leave", "/members", { do: "leave" }],
      ] as const)
        for (const [role, user] of [["owner", owner] as const, ["developer", developer] as const]) {
          if (permission === "workspace.leave" && role === "developer") continue;
          const { status } = await visitPage(gateway, `/console/${account.id}${page}`, user, form);
          expect([permission, role, status === 403]).toEqual([
            permission,
            role,
            !hasPermission(role, permission),
          ]);
        }
    });

    testOnce(
      "checks the permission of every route for every role, and returns 404 to people who are not members",
      async () => {
        const { gateway, account, owner, developer, otherOwner } = fixture;
        const routes = gateway.server.routes.filter((route) =>
          route.path.startsWith("/console/{account}"),
        );
        expect(routes.map((route) => route.id).sort()).toEqual(
          [...Object.keys(PAGE_PERMISSIONS), ...Object.keys(FORM_PERMISSIONS)].sort(),
        );
        const users: (readonly [Role, TestUser])[] = [
          ["owner", owner],
          ["developer", developer],
        ];
        for (const role of ["admin", "billing", "viewer"] as const) {
          const user = await createUser(gateway, `${role}-${store}`);
          await makeMember(gateway, account.id, user, role);
          users.push([role, user]);
        }
        for (const route of routes) {
          const path = route.path.replace("{account}", account.id);
          const permission = PAGE_PERMISSIONS[route.id];
          const requests =
            permission === undefined
              ? (FORM_PERMISSIONS[route.id] ?? [])
              : [[permission, undefined] as const];
          for (const [needed, form] of requests) {
            const foreign = await visitPage(gateway, path, otherOwner, form);
            expect([route.id, foreign.status]).toEqual([route.id, 404]);
            for (const [role, user] of users) {
              const { status } = await visitPage(gateway, path, user, form);
              expect([route.id, needed, role, status === 403]).toEqual([
                route.id,
                needed,
                role,
                !hasPermission(role, needed),
              ]);
            }
          }
        }
      },
    );

    test("hides webhooks and the audit log from developers", async () => {
      const { gateway, otherAccount } = fixture;
      const helper = await createUser(gateway, "helper");
      await makeDeveloper(gateway, otherAccount.id, helper);
      const overview = `/console/${otherAccount.id}`;
      for (const page of ["/webhooks", "/audit"])
        expect((await visitPage(gateway, overview + page, helper)).status).toBe(403);
      expect((await visitPage(gateway, overview, helper)).text).not.toContain("Audit log");
    });

    test("rejects a key of another account", async () => {
      const { gateway, account, owner, otherAccount } = fixture;
      const { headers } = otherAccount;
      const response = await fetch(`${gateway.url}/v1/keys`, { headers });
      // Safe because the list of keys has this shape.
      const { data } = (await response.json()) as { data: { id: string }[] };
      const path = `/console/${account.id}/keys/${data[0]?.id}`;
      expect((await visitPage(gateway, path, owner)).status).toBe(404);
      expect((await visitPage(gateway, path, owner, { do: "revoke" })).status).toBe(404);
      expect((await fetch(`${gateway.url}/v1/account`, { headers })).status).toBe(200);
    });

    test("rejects a form from another site or with a wrong CSRF token", async () => {
      const { gateway, otherAccount, otherOwner } = fixture;
      const send = (headers: Readonly<Record<string, string>>, csrf: string) =>
        fetch(`${gateway.url}/console/${otherAccount.id}/keys`, {
          method: "POST",
          headers: {
            "content-type": "application/x-www-form-urlencoded",
            cookie: otherOwner.cookie,
            ...headers,
          },
          body: new URLSearchParams({ do: "mint", csrf }).toString(),
          redirect: "manual",
        });
      const crossSite = { origin: "https://evil.example", "sec-fetch-site": "cross-site" };
      expect((await send(crossSite, otherOwner.csrf)).status).toBe(403);
      const sameSite = { origin: gateway.url, "sec-fetch-site": "same-origin" };
      expect((await send(sameSite, "wrong")).status).toBe(403);
    });
  });
});

test("every console route requires a session", () => {
  const deps = { billing: { processor: { kind: "development" } } } as unknown;
  for (const route of consoleRoutes(deps as Parameters<typeof consoleRoutes>[0]))
    expect([route.id, requiresSession(route)]).toEqual([route.id, true]);
});
