// SCIM 2.0 (RFC 7643, RFC 7644): a directory such as Okta or Microsoft Entra creates, changes and deactivates the people of a
// workspace. Its bearer token names the workspace; no request can name another.

import { z } from "zod";
import type { Act } from "../activity/audit.ts";
import type { FaultCode } from "../base/fault.ts";
import { networksOf } from "../http/request/client-ip.ts";
import { publicRoute, type ResponseDoc, type Route, type RouteInput } from "../http/route.ts";
import type { Db, Reader, Tx } from "../store/db.ts";
import { type Directory, requireDirectory } from "./directory.ts";
import { getGroup, listGroupMembers, listGroupsOfUser, type ScimGroup } from "./scim-group-rows.ts";
import {
  changeGroup,
  createGroup,
  deleteGroup,
  listGroups,
  parseGroup,
  patchedGroup,
} from "./scim-groups.ts";
import { LIST_PAGE_MAX, ListQuery, pageOf, ResourceQuery } from "./scim-paging.ts";
import { parsePatch, type PatchOperation } from "./scim-patch.ts";
import {
  GROUP_SCHEMA,
  GroupBody,
  GroupResource,
  groupResource,
  listResponse,
  PATCH_SCHEMA,
  PatchBody,
  type Resource,
  SCIM_CONTENT_TYPE,
  selectAttributes,
  USER_SCHEMA,
  UserBody,
  UserResource,
  userResource,
} from "./scim-resource.ts";
import { getUser, type ScimUser } from "./scim-user-rows.ts";
import {
  changeUser,
  createUser,
  deleteUser,
  listUsers,
  parseUser,
  patchedUser,
  type ResourcePage,
} from "./scim-users.ts";

/** A group with some thousand members. */
const BODY_LIMIT_BYTES = 2_097_152;

export interface ScimRouteDeps {
  readonly db: Db;
  readonly baseUrl: string;
}

const ResourcePath = z.object({
  id: z.string().max(100).meta({ description: "The id of the resource." }),
});
const USER_EXAMPLE = {
  schemas: [USER_SCHEMA],
  userName: "ada@example.com",
  name: { givenName: "Ada", familyName: "Lovelace" },
  emails: [{ value: "ada@example.com", type: "work", primary: true }],
  externalId: "00u1a2b3c4d5",
  active: true,
};
const META_EXAMPLE = {
  created: "2026-11-21T09:30:00.000Z",
  lastModified: "2026-11-21T09:30:00.000Z",
  location: "https://gateway.example/scim/v2/…",
};
const GROUP_EXAMPLE = { schemas: [GROUP_SCHEMA], displayName: "Engineering", members: [] };
const PATCH_EXAMPLE = {
  schemas: [PATCH_SCHEMA],
  Operations: [{ op: "replace", path: "active", value: false }],
};

const GROUP_PATCH_EXAMPLE = {
  schemas: [PATCH_SCHEMA],
  Operations: [
    { op: "add", path: "members", value: [{ value: "scu_01kah5t3mq7d2c9w4e6r8t0yax" }] },
  ],
};

export function scimRoutes(deps: ScimRouteDeps): readonly Route[] {
  const [users, groups] = [userKind(deps), groupKind(deps)];
  return [
    ...metadataRoutes(deps),
    ...readRoutes(deps, users),
    ...writeRoutes(deps, users),
    ...readRoutes(deps, groups),
    ...writeRoutes(deps, groups),
  ];
}

type Input<P, Q, B> = RouteInput<P, Q, B, undefined> & { readonly directory: Directory };

interface ScimSpec<P, Q, B> {
  readonly method: Route["method"];
  readonly path: string;
  readonly id: string;
  readonly summary: string;
  readonly params?: z.ZodType<P>;
  readonly query?: z.ZodType<Q>;
  readonly body?: z.ZodType<B>;
  readonly requestExample?: unknown;
  readonly faults?: readonly FaultCode[];
  readonly response: ResponseDoc & { readonly status: 200 | 201 | 204 };
  readonly run: (input: Input<P, Q, B>) => Promise<Resource | undefined> | Resource;
}

function scimRoute<P = undefined, Q = undefined, B = undefined>(
  { db }: ScimRouteDeps,
  { response, run, faults = [], ...spec }: ScimSpec<P, Q, B>,
): Route {
  const { status, ...doc } = response;
  return publicRoute<P, Q, B>({
    tag: "Directory sync",
    dialect: "scim",
    credential: "scimToken",
    description: "Authenticates with the bearer token of the page Directory sync of a workspace.",
    bodyLimitBytes: BODY_LIMIT_BYTES,
    ...(spec.body !== undefined && {
      authenticate: (headers, now) => requireDirectory(db, headers, now),
    }),
    ...spec,
    responses: { [status]: doc },
    faults: ["invalid_api_key", ...faults],
    run: async (input) => {
      // Again after the body, which may take minutes.
      const directory = await requireDirectory(db, input.headers, input.now);
      const resource = await run({ ...input, directory });
      return new Response(resource === undefined ? null : JSON.stringify(resource), {
        status,
        headers: {
          "cache-control": "no-store",
          ...(resource === undefined ? {} : { "content-type": SCIM_CONTENT_TYPE }),
        },
      });
    },
  });
}

function actOf({ directory: { accountId }, clientIp, now }: Input<unknown, unknown, unknown>): Act {
  return {
    accountId,
    actor: { type: "system", id: "scim" },
    network: networksOf(clientIp)[1],
    ip: clientIp,
    now,
  };
}

function okDoc(
  description: string,
  schema: z.ZodType,
  example?: Resource,
): ScimSpec<unknown, unknown, unknown>["response"] {
  return { status: 200, description, schema, contentType: SCIM_CONTENT_TYPE, example };
}

const ListSchema = z
  .object({
    schemas: z.array(z.string()),
    totalResults: z.number(),
    startIndex: z.number(),
    itemsPerPage: z.number(),
    Resources: z.array(z.looseObject({})),
  })
  .meta({ id: "ScimList" });

function metadataRoutes(deps: ScimRouteDeps): readonly Route[] {
  const { baseUrl } = deps;
  const list = (resources: readonly Resource[]): Resource =>
    listResponse(resources, { total: resources.length, startIndex: 1 });
  return [
    scimRoute(deps, {
      method: "GET",
      path: "/scim/v2/ServiceProviderConfig",
      id: "getScimConfig",
      summary: "Get the SCIM features",
      response: okDoc("The features.", z.looseObject({}), serviceProviderConfig(baseUrl)),
      run: () => serviceProviderConfig(baseUrl),
    }),
    scimRoute(deps, {
      method: "GET",
      path: "/scim/v2/ResourceTypes",
      id: "listScimResourceTypes",
      summary: "List the SCIM resource types",
      response: okDoc("The resource types.", ListSchema, list(resourceTypes())),
      run: () => list(resourceTypes()),
    }),
    scimRoute(deps, {
      method: "GET",
      path: "/scim/v2/Schemas",
      id: "listScimSchemas",
      summary: "List the SCIM schemas",
      response: okDoc("The schemas.", ListSchema),
      run: () => list(schemas(baseUrl)),
    }),
  ];
}

/** What users and groups do differently. */
interface ResourceKind<T> {
  readonly name: "User" | "Group";
  readonly schema: z.ZodType;
  readonly body: z.ZodType<Resource>;
  readonly example: Resource;
  readonly patchExample: Resource;
  readonly list: (
    reader: Reader,
    accountId: string,
    page: ResourcePage,
  ) => Promise<{ readonly items: readonly T[]; readonly total: number }>;
  readonly get: (reader: Reader, accountId: string, id: string) => Promise<T>;
  readonly show: (reader: Reader, accountId: string, item: T) => Promise<Resource>;
  readonly create: (tx: Tx, act: Act, resource: Resource) => Promise<T>;
  readonly replace: (tx: Tx, act: Act, id: string, resource: Resource) => Promise<T>;
  readonly patch: (
    tx: Tx,
    act: Act,
    id: string,
    operations: readonly PatchOperation[],
  ) => Promise<T>;
  readonly remove: (tx: Tx, act: Act, id: string) => Promise<void>;
}

function userKind({ baseUrl }: ScimRouteDeps): ResourceKind<ScimUser> {
  return {
    name: "User",
    schema: UserResource,
    body: UserBody,
    example: USER_EXAMPLE,
    patchExample: PATCH_EXAMPLE,
    list: listUsers,
    get: getUser,
    show: async (reader, accountId, user) =>
      userResource(user, await listGroupsOfUser(reader, accountId, user.id), baseUrl),
    create: (tx, act, resource) => createUser(tx, act, parseUser(resource)),
    replace: (tx, act, id, resource) => changeUser(tx, act, id, () => parseUser(resource)),
    patch: (tx, act, id, operations) =>
      changeUser(tx, act, id, (before) => patchedUser(before, operations)),
    remove: deleteUser,
  };
}

function groupKind({ baseUrl }: ScimRouteDeps): ResourceKind<ScimGroup> {
  return {
    name: "Group",
    schema: GroupResource,
    body: GroupBody,
    example: GROUP_EXAMPLE,
    patchExample: GROUP_PATCH_EXAMPLE,
    list: listGroups,
    get: getGroup,
    show: async (reader, accountId, group) =>
      groupResource(group, await listGroupMembers(reader, accountId, group.id), baseUrl),
    create: (tx, act, resource) => createGroup(tx, act, parseGroup(resource)),
    replace: (tx, act, id, resource) => changeGroup(tx, act, id, () => parseGroup(resource)),
    patch: (tx, act, id, operations) =>
      changeGroup(tx, act, id, (before) => patchedGroup(before, operations)),
    remove: deleteGroup,
  };
}

/** The resource of a request as a response shows it. */
function shownExample({
  name,
  example,
}: Pick<ResourceKind<unknown>, "name" | "example">): Resource {
  const id = `sc${name.charAt(0).toLowerCase()}_01kah5t3mq7d2c9w4e6r8t0yax`;
  return { ...example, id, meta: { resourceType: name, ...META_EXAMPLE } };
}

function readRoutes<T>(deps: ScimRouteDeps, kind: ResourceKind<T>): readonly Route[] {
  const { db } = deps;
  const { name, schema, list, get, show } = kind;
  const noun = name.toLowerCase();
  const example = shownExample(kind);
  return [
    scimRoute(deps, {
      method: "GET",
      path: `/scim/v2/${name}s`,
      id: `listScim${name}s`,
      summary: `List the ${noun}s of a directory`,
      query: ListQuery,
      response: okDoc(
        `A page of ${noun}s.`,
        ListSchema,
        listResponse([example], { total: 1, startIndex: 1 }),
      ),
      run: async ({ directory: { accountId }, query }) => {
        const { page, startIndex } = pageOf(query);
        const { items, total } = await list(db, accountId, page);
        // One after the other: hundreds of reads at once would keep the connections of the store from others.
        const resources: Resource[] = [];
        for (const item of items)
          resources.push(selectAttributes(await show(db, accountId, item), query));
        return listResponse(resources, { total, startIndex });
      },
    }),
    scimRoute(deps, {
      method: "GET",
      path: `/scim/v2/${name}s/{id}`,
      id: `getScim${name}`,
      summary: `Get a ${noun} of a directory`,
      params: ResourcePath,
      query: ResourceQuery,
      faults: ["not_found"],
      response: okDoc(`The ${noun}.`, schema, example),
      run: async ({ directory: { accountId }, params, query }) =>
        selectAttributes(await show(db, accountId, await get(db, accountId, params.id)), query),
    }),
  ];
}

function writeRoutes<T>(deps: ScimRouteDeps, kind: ResourceKind<T>): readonly Route[] {
  const { db } = deps;
  const { name, schema, body, example, show, create, replace, patch, remove } = kind;
  const noun = name.toLowerCase();
  const doc = okDoc(`The ${noun}.`, schema, shownExample(kind));
  const one = { path: `/scim/v2/${name}s/{id}`, params: ResourcePath };
  const write = (
    { directory: { accountId } }: Pick<Input<unknown, unknown, unknown>, "directory">,
    change: (tx: Tx) => Promise<T>,
  ): Promise<Resource> => db.write(async (tx) => await show(tx, accountId, await change(tx)));
  return [
    scimRoute(deps, {
      method: "POST",
      path: `/scim/v2/${name}s`,
      id: `createScim${name}`,
      summary: `Create a ${noun} of a directory`,
      body,
      requestExample: example,
      faults: ["conflict", "forbidden"],
      response: { ...doc, status: 201 },
      run: (input) => write(input, (tx) => create(tx, actOf(input), input.body)),
    }),
    scimRoute(deps, {
      ...one,
      method: "PUT",
      id: `replaceScim${name}`,
      summary: `Replace a ${noun} of a directory`,
      body,
      requestExample: example,
      faults: ["not_found", "conflict"],
      response: doc,
      run: (input) => write(input, (tx) => replace(tx, actOf(input), input.params.id, input.body)),
    }),
    scimRoute(deps, {
      ...one,
      method: "PATCH",
      id: `changeScim${name}`,
      summary: `Change a ${noun} of a directory`,
      body: PatchBody,
      requestExample: kind.patchExample,
      faults: ["not_found", "conflict"],
      response: doc,
      run: (input) => {
        const operations = parsePatch(input.body);
        return write(input, (tx) => patch(tx, actOf(input), input.params.id, operations));
      },
    }),
    scimRoute(deps, {
      ...one,
      method: "DELETE",
      id: `deleteScim${name}`,
      summary: `Delete a ${noun} of a directory`,
      faults: ["not_found"],
      response: { status: 204, description: `The ${noun} is deleted.` },
      run: async (input) => {
        await db.write((tx) => remove(tx, actOf(input), input.params.id));
        return undefined;
      },
    }),
  ];
}

// What a SCIM client can find out about this service provider: its features, resource types and schemas (RFC 7643 §5 to §7).

function serviceProviderConfig(baseUrl: string): Resource {
  return {
    schemas: ["urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"],
    documentationUri: `${baseUrl}/docs/guides/single-sign-on`,
    patch: { supported: true },
    bulk: { supported: false, maxOperations: 0, maxPayloadSize: 0 },
    filter: { supported: true, maxResults: LIST_PAGE_MAX },
    changePassword: { supported: false },
    sort: { supported: false },
    etag: { supported: false },
    authenticationSchemes: [
      {
        type: "oauthbearertoken",
        name: "Bearer token",
        description: "A token of the page Directory sync of the workspace.",
        primary: true,
      },
    ],
    meta: {
      resourceType: "ServiceProviderConfig",
      location: `${baseUrl}/scim/v2/ServiceProviderConfig`,
    },
  };
}

function resourceTypes(): readonly Resource[] {
  return [
    ["User", "/Users", USER_SCHEMA],
    ["Group", "/Groups", GROUP_SCHEMA],
  ].map(([name, endpoint, schema]) => ({
    schemas: ["urn:ietf:params:scim:schemas:core:2.0:ResourceType"],
    id: name,
    name,
    endpoint,
    schema,
    meta: { resourceType: "ResourceType" },
  }));
}

function schemas(baseUrl: string): readonly Resource[] {
  return [
    schema(baseUrl, USER_SCHEMA, "User", [
      attribute("userName", { required: true, uniqueness: "server" }),
      complex("name", false, ["formatted", "givenName", "familyName"]),
      attribute("displayName"),
      complex("emails", true, ["value", "type"]),
      attribute("active", { type: "boolean" }),
      attribute("externalId", { caseExact: true }),
      { ...complex("groups", true, ["value", "display"]), mutability: "readOnly" },
    ]),
    schema(baseUrl, GROUP_SCHEMA, "Group", [
      attribute("displayName", { required: true, uniqueness: "server" }),
      attribute("externalId", { caseExact: true }),
      complex("members", true, ["value", "display"]),
    ]),
  ];
}

function schema(
  baseUrl: string,
  id: string,
  name: string,
  attributes: readonly Resource[],
): Resource {
  return {
    schemas: ["urn:ietf:params:scim:schemas:core:2.0:Schema"],
    id,
    name,
    attributes,
    meta: { resourceType: "Schema", location: `${baseUrl}/scim/v2/Schemas/${id}` },
  };
}

function attribute(name: string, more: Resource = {}): Resource {
  return {
    name,
    type: "string",
    multiValued: false,
    required: false,
    caseExact: false,
    mutability: "readWrite",
    returned: "default",
    uniqueness: "none",
    ...more,
  };
}

function complex(name: string, multiValued: boolean, subs: readonly string[]): Resource {
  const subAttributes = subs.map((sub) => attribute(sub));
  return attribute(name, { type: "complex", multiValued, subAttributes });
}
