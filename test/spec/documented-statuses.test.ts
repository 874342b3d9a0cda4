// Every documented status of a route is covered by a test. Documented statuses are those of the route's responses, its faults
// and the faults of its guards.

import { afterAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import path from "node:path";
import { FAULTS } from "../../src/base/fault.ts";
import { possibleFaults } from "../../src/discovery/error-docs.ts";
import { type Route, requiresKey, requiresSession } from "../../src/http/route.ts";
import { startGateway } from "../support/gateway.ts";
import { ROOT } from "../support/source/source-files.ts";
import { testedStatuses } from "../support/source/tested-statuses.ts";

const gateway = await startGateway();
afterAll(() => gateway.stop());

interface Exemption {
  readonly reason: string;
  readonly matches: (route: Route, status: number) => boolean;
  /** The test files that cover it; they must exist. */
  readonly tests: readonly string[];
}

/** Tests that loop over the route table and cover a status for all matching routes. */
const LOOPS: readonly Exemption[] = [
  {
    reason: "every endpoint with an API key is called without one",
    matches: (route, status) => requiresKey(route) && status === 401,
    tests: ["test/spec/authentication.test.ts"],
  },
  {
    reason: "every endpoint except operations is called during shutdown",
    matches: (route, status) => route.tag !== "Operations" && status === 503,
    tests: ["test/spec/errors.test.ts"],
  },
  {
    reason:
      "every endpoint with an API key is called above the rate limit; model calls by their hold",
    matches: (route, status) => requiresKey(route) && status === 429,
    tests: ["test/spec/limits.test.ts"],
  },
  {
    reason:
      "the request bodies of a network above its limit are refused, on pages, by MCP and for codes of apps as well",
    matches: (route, status) =>
      route.method !== "GET" &&
      (requiresSession(route) ||
        route.kind.startsWith("open-") ||
        route.dialect === "jsonrpc" ||
        route.tag === "App sign-in") &&
      status === 429,
    tests: ["test/http/body-quota.test.ts"],
  },
  {
    reason: "every body is sent one byte at a time",
    matches: (route, status) => route.method !== "GET" && !requiresSession(route) && status === 408,
    tests: ["test/http/slow-clients.test.ts"],
  },
  {
    reason: "every small body is sent too large, with a wrong content type and malformed",
    matches: (route, status) =>
      route.method !== "GET" &&
      (requiresKey(route) || route.kind.startsWith("public")) &&
      route.bodyLimitBytes === undefined &&
      route.bodyType !== "form" &&
      (status === 413 || (route.body !== undefined && (status === 415 || status === 400))),
    tests: ["test/spec/bad-input.test.ts"],
  },
  {
    reason: "every endpoint with an API key is called with a key that lacks its scope",
    matches: (route, status) => requiresKey(route) && status === 403,
    tests: ["test/keys/scopes.test.ts"],
  },
  {
    reason: "every endpoint with an API key is called with a broken store",
    matches: (route, status) => requiresKey(route) && status === 500,
    tests: ["test/spec/errors.test.ts"],
  },
  {
    reason: "every document is requested, also conditionally",
    matches: (route, status) => route.tag === "Discovery" && (status === 200 || status === 304),
    tests: ["test/spec/discovery.test.ts"],
  },
];

/** Modules that have their own tests. */
const TESTED_ELSEWHERE: readonly Exemption[] = [
  {
    reason: "model calls",
    matches: ({ tag, path }) => tag === "Models" && !path.startsWith("/v1/models"),
    tests: [
      "test/spec/model-calls-bad-input.test.ts",
      "test/inference/upstream/provider-failures.test.ts",
    ],
  },
  {
    reason: "what is stored",
    matches: ({ path }) => path === "/v1/account/response-storage",
    tests: ["test/responses/storage-settings.test.ts"],
  },
  {
    reason: "the documentation and the public model pages",
    matches: ({ path }) => /^\/(docs|models)\b/.test(path),
    tests: ["test/discovery/docs-site.test.ts", "test/discovery/model-pages.test.ts"],
  },
  {
    reason: "the catalog",
    matches: ({ path }) => path.startsWith("/v1/models"),
    tests: ["test/models/routes.test.ts"],
  },
  {
    reason: "provider keys",
    matches: ({ path }) => path.startsWith("/v1/provider-keys"),
    tests: ["test/provider-keys/routes.test.ts"],
  },
  {
    reason: "webhooks, events, audit, billing and the console",
    matches: ({ tag, path }) =>
      ["Webhooks", "Audit", "Billing"].includes(tag) || path.startsWith("/console"),
    tests: ["test/activity", "test/billing", "test/console"],
  },
  {
    reason: "SCIM",
    matches: ({ tag }) => tag === "Directory sync",
    tests: ["test/scim/scim.test.ts"],
  },
  {
    reason: "claims and sign-in",
    matches: ({ kind, dialect, path }) =>
      dialect === "oauth" || /page|form/.test(kind) || /^\/(claim|signin|signout|auth)/.test(path),
    tests: ["test/claims/claim-api.test.ts", "test/people/sign-in.test.ts"],
  },
];

/** Statuses that an external test cannot cause. */
const UNREACHABLE: readonly Exemption[] = [
  {
    reason: "documents and operations endpoints do not use the store",
    matches: (route, status) =>
      (route.tag === "Discovery" || route.tag === "Operations") && status === 500,
    tests: [],
  },
];

function documentedStatuses(route: Route): readonly number[] {
  const responses = Object.keys(route.responses).map(Number);
  return [...new Set([...responses, ...possibleFaults(route).map((code) => FAULTS[code][0])])];
}

describe("documented statuses", () => {
  test("are all covered by a test", () => {
    const tested = testedStatuses();
    const exempt = [...LOOPS, ...TESTED_ELSEWHERE, ...UNREACHABLE];
    const missing = gateway.server.routes.flatMap((route) =>
      documentedStatuses(route)
        .filter((status) => !tested.has(`${route.id} ${status}`))
        .filter((status) => !exempt.some(({ matches }) => matches(route, status)))
        .map((status) => `${route.id} ${status}`),
    );
    expect(missing).toEqual([]);
  });

  test("include every status that a test covers", () => {
    const promised = new Set(
      gateway.server.routes.flatMap((route) =>
        documentedStatuses(route).map((status) => `${route.id} ${status}`),
      ),
    );
    expect([...testedStatuses()].filter((one) => !promised.has(one))).toEqual([]);
  });

  test("have no unused exemptions", () => {
    for (const { reason, matches, tests } of [...LOOPS, ...TESTED_ELSEWHERE, ...UNREACHABLE]) {
      const uses = gateway.server.routes.filter((route) =>
        documentedStatuses(route).some((status) => matches(route, status)),
      );
      expect({ reason, unused: uses.length === 0 }).toEqual({ reason, unused: false });
      for (const file of tests)
        expect({ file, isThere: existsSync(path.join(ROOT, file)) }).toEqual({
          file,
          isThere: true,
        });
    }
  });
});
