// The JSON of SCIM resources and lists (RFC 7643 and 7644).

import { z } from "zod";
import { timestamp } from "../http/schemas.ts";
import type { NamedId, ScimGroup } from "./scim-group-rows.ts";
import type { ScimUser } from "./scim-user-rows.ts";

export const SCIM_CONTENT_TYPE = "application/scim+json";
export const USER_SCHEMA = "urn:ietf:params:scim:schemas:core:2.0:User";
export const GROUP_SCHEMA = "urn:ietf:params:scim:schemas:core:2.0:Group";
const LIST_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:ListResponse";
export const PATCH_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:PatchOp";

const Meta = z.object({
  resourceType: z.string(),
  created: z.string(),
  lastModified: z.string(),
  location: z.string(),
});

const Reference = z.object({ value: z.string(), display: z.string() });

export const UserResource = z
  .object({
    schemas: z.array(z.string()),
    id: z.string(),
    externalId: z.string().optional(),
    userName: z.string(),
    name: z.looseObject({}).optional(),
    displayName: z.string().optional(),
    emails: z.array(z.looseObject({ value: z.string() })),
    active: z.boolean(),
    groups: z.array(Reference).optional(),
    meta: Meta,
  })
  .meta({ id: "ScimUser" });

export const GroupResource = z
  .object({
    schemas: z.array(z.string()),
    id: z.string(),
    externalId: z.string().optional(),
    displayName: z.string(),
    members: z.array(Reference).optional(),
    meta: Meta,
  })
  .meta({ id: "ScimGroup" });

/** Directories differ in the forms of values, so the service checks them itself; these are the usual ones. */
function field(schema: Readonly<Record<string, unknown>>): z.ZodType {
  return z.unknown().optional().meta(schema);
}

function text(description: string): Readonly<Record<string, unknown>> {
  return { type: "string", description };
}

function listOf(properties: object, description: string): z.ZodType {
  const items = { type: "object", properties, additionalProperties: {} };
  return field({ type: "array", items, description });
}

const EXTERNAL_ID = field(text("The id in the directory."));

export const UserBody = z
  .looseObject({
    userName: field(text("The sign-in name, and the email address if `emails` has none.")),
    emails: listOf(
      {
        value: text("The address."),
        primary: { type: "boolean", description: "Whether it is the one to use." },
      },
      "Email addresses. The primary one is used, or the first.",
    ),
    name: field({
      type: "object",
      properties: { givenName: text("The first name."), familyName: text("The last name.") },
      additionalProperties: {},
    }),
    displayName: field(text("The full name.")),
    externalId: EXTERNAL_ID,
    active: field({
      type: "boolean",
      default: true,
      description: "`false` takes the access to the workspace away.",
    }),
  })
  .meta({ id: "ScimUserBody", required: ["userName"] });

export const GroupBody = z
  .looseObject({
    displayName: field(text("The name of the group.")),
    externalId: EXTERNAL_ID,
    members: listOf({ value: text("The id of a user.") }, "The users of the group."),
  })
  .meta({ id: "ScimGroupBody", required: ["displayName"] });

export const PatchBody = z
  .looseObject({
    Operations: listOf(
      {
        op: { type: "string", enum: ["add", "replace", "remove"], description: "What is done." },
        path: text("The attribute, such as `active` or `name.givenName`."),
        value: { description: "The value; without `path`, an object of attributes." },
      },
      "Changes, in order.",
    ),
  })
  .meta({ id: "ScimPatchBody", required: ["Operations"] });

export type Resource = Readonly<Record<string, unknown>>;

export function userResource(
  user: ScimUser,
  groups: readonly NamedId[],
  baseUrl: string,
): Resource {
  const { id, externalId, userName, displayName, givenName, familyName, email, active } = user;
  const formatted = [givenName, familyName].filter((part) => part !== null).join(" ");
  return {
    schemas: [USER_SCHEMA],
    id,
    ...(externalId !== null && { externalId }),
    userName,
    ...(formatted !== "" && {
      name: {
        formatted,
        ...(givenName !== null && { givenName }),
        ...(familyName !== null && { familyName }),
      },
    }),
    ...(displayName !== null && { displayName }),
    emails: [{ value: email, type: "work", primary: true }],
    active,
    groups: groups.map(referenceTo),
    meta: metaOf("User", user, `${baseUrl}/scim/v2/Users/${id}`),
  };
}

export function groupResource(
  group: ScimGroup,
  members: readonly NamedId[],
  baseUrl: string,
): Resource {
  const { id, externalId, displayName } = group;
  return {
    schemas: [GROUP_SCHEMA],
    id,
    ...(externalId !== null && { externalId }),
    displayName,
    members: members.map(referenceTo),
    meta: metaOf("Group", group, `${baseUrl}/scim/v2/Groups/${id}`),
  };
}

function referenceTo({ id, name }: NamedId): z.infer<typeof Reference> {
  return { value: id, display: name };
}

function metaOf(
  resourceType: string,
  { createdAt, changedAt }: { readonly createdAt: number; readonly changedAt: number },
  location: string,
): z.infer<typeof Meta> {
  return {
    resourceType,
    created: timestamp(createdAt),
    lastModified: timestamp(changedAt),
    location,
  };
}

/** `startIndex` counts from 1. */
export function listResponse(
  resources: readonly Resource[],
  { total, startIndex }: { readonly total: number; readonly startIndex: number },
): Resource {
  return {
    schemas: [LIST_SCHEMA],
    totalResults: total,
    startIndex,
    itemsPerPage: resources.length,
    Resources: resources,
  };
}

interface Selection {
  /** Attributes to return, separated by commas. */
  readonly attributes?: string | undefined;
  /** Attributes to leave out, such as the members of a large group. */
  readonly excludedAttributes?: string | undefined;
}

/** `schemas` and `id` are always returned. */
export function selectAttributes(
  resource: Resource,
  { attributes, excludedAttributes }: Selection,
): Resource {
  const wanted = namesOf(attributes);
  const excluded = namesOf(excludedAttributes);
  return Object.fromEntries(
    Object.entries(resource).filter(([name]) => {
      if (name === "schemas" || name === "id") return true;
      const folded = name.toLowerCase();
      return (wanted.size === 0 || wanted.has(folded)) && !excluded.has(folded);
    }),
  );
}

function namesOf(list = ""): ReadonlySet<string> {
  const names = list.split(",").map((name) => name.trim().toLowerCase().split(".", 1)[0] ?? "");
  return new Set(names.filter((name) => name !== ""));
}
