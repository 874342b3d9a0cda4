/** @jsxImportSource hono/jsx */
// One endpoint of the API reference: parameters, body, responses and errors, with example request and responses beside
// them.

import type { Child } from "hono/jsx";
import {
  type MediaType,
  type OpenApiDocument,
  type Operation,
  type Parameter,
  type ResponseObject,
  resolveResponse,
} from "../openapi/openapi-types.ts";
import { renderInline, Markdown } from "../markdown.tsx";
import { schemaRows, type SchemaRow, typeName } from "./schema-rows.ts";

interface EndpointProps {
  readonly path: string;
  readonly method: string;
  readonly operation: Operation;
  readonly document: OpenApiDocument;
}

export function Endpoint({ path, method, operation, document }: EndpointProps): Child {
  const id = operation.operationId;
  const responses = Object.entries(operation.responses).map(
    ([status, responseOrRef]) =>
      [status, resolveResponse(document, responseOrRef), "$ref" in responseOrRef] as const,
  );
  const successes = responses.filter(([, , isShared]) => !isShared);
  const errors = responses.filter(([status, , isShared]) => isShared && status !== "default");
  return (
    <article class="endpoint" id={id} aria-labelledby={`${id}-title`}>
      <div class="endpoint-description">
        <h3 id={`${id}-title`}>
          <a class="anchor" href={`#${id}`}>
            {renderInline(operation.summary)}
          </a>
        </h3>
        <p class="endpoint-path">
          <span class={`method ${method.toLowerCase()}`}>{method}</span>
          {path}
        </p>
        {operation.description === undefined ? null : <Markdown text={operation.description} />}
        {operation.security.length === 0 ? <p class="note">No API key required.</p> : null}
        <Parameters parameters={operation.parameters ?? []} />
        <RequestBody operation={operation} document={document} />
        {successes.map(([status, response]) => (
          <SuccessResponse status={status} response={response} document={document} />
        ))}
        <ErrorTable responses={errors} />
      </div>
      <div class="endpoint-examples">
        {operation["x-codeSamples"].map((sample) => (
          <CodeExample caption={`Request (${sample.label})`} text={sample.source} />
        ))}
        {successes.flatMap(([status, response]) => examplesOf(status, response))}
      </div>
    </article>
  );
}

const PARAMETER_LOCATIONS = [
  ["path", "Path parameters"],
  ["query", "Query parameters"],
  ["header", "Headers"],
] as const;

function Parameters({ parameters }: { readonly parameters: readonly Parameter[] }): Child {
  return (
    <>
      {PARAMETER_LOCATIONS.map(([location, title]) => {
        const rows = parameters.filter((each) => each.in === location).map(parameterRow);
        if (rows.length === 0) return null;
        return (
          <>
            <h4>{title}</h4>
            <FieldTable caption={title} rows={rows} />
          </>
        );
      })}
    </>
  );
}

function parameterRow(parameter: Parameter): SchemaRow {
  const { name, required = false, description, schema } = parameter;
  const rows = schemaRows(
    {
      type: "object",
      properties: { [name]: { ...schema, ...(description === undefined ? {} : { description }) } },
    },
    {},
  );
  return { name, type: typeName(schema), required, description: rows[0]?.description ?? "" };
}

function RequestBody({
  operation,
  document,
}: Pick<EndpointProps, "operation" | "document">): Child {
  const { requestBody } = operation;
  if (requestBody === undefined) return null;
  return (
    <>
      <h4>Request body</h4>
      {Object.entries(requestBody.content).map(([type, media]) => (
        <>
          <p class="note">
            <code>{type}</code>
            {requestBody.required ? "" : ", optional"}
          </p>
          <FieldTable
            caption="Request body fields"
            rows={schemaRows(media.schema ?? {}, document.components.schemas)}
          />
        </>
      ))}
    </>
  );
}

interface SuccessResponseProps {
  readonly status: string;
  readonly response: ResponseObject;
  readonly document: OpenApiDocument;
}

function SuccessResponse({ status, response, document }: SuccessResponseProps): Child {
  const headers = Object.entries(response.headers ?? {}).flatMap(([name, header]) =>
    "description" in header ? [{ name, text: header.description }] : [],
  );
  return (
    <>
      <h4>Response {status}</h4>
      <Markdown text={response.description} />
      {headers.map((header) => (
        <p class="note">
          <code>{header.name}</code>: {renderInline(header.text)}
        </p>
      ))}
      {Object.entries(response.content ?? {}).map(([type, media]) => (
        <>
          <p class="note">
            <code>{type}</code>
          </p>
          <MediaTable caption={`Fields of response ${status}`} media={media} document={document} />
        </>
      ))}
    </>
  );
}

interface MediaTableProps {
  readonly caption: string;
  readonly media: MediaType;
  readonly document: OpenApiDocument;
}

function MediaTable({ caption, media, document }: MediaTableProps): Child {
  const { schemas } = document.components;
  const { schema } = media;
  if (schema?.$ref !== undefined)
    return (
      <p>
        The <SchemaLink name={typeName(schema)} /> object.
      </p>
    );
  return (
    <FieldTable caption={caption} rows={schema === undefined ? [] : schemaRows(schema, schemas)} />
  );
}

export function FieldTable({
  caption,
  rows,
}: {
  readonly caption: string;
  readonly rows: readonly SchemaRow[];
}): Child {
  if (rows.length === 0) return null;
  return (
    <table class="fields">
      <caption class="visually-hidden">{caption}</caption>
      <thead>
        <tr>
          <th scope="col">Field</th>
          <th scope="col">Description</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr>
            <th scope="row">
              <code>{row.name}</code>
              <span class="type">
                <TypeCell row={row} />
                {row.required ? "" : ", optional"}
              </span>
            </th>
            <td>{renderInline(row.description)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function TypeCell({ row }: { readonly row: SchemaRow }): Child {
  if (row.schemaName === undefined) return row.type;
  const [before = "", after = ""] = row.type.split(row.schemaName);
  return (
    <>
      {before}
      <SchemaLink name={row.schemaName} />
      {after}
    </>
  );
}

function SchemaLink({ name }: { readonly name: string }): Child {
  return <a href={`#record-${name}`}>{name}</a>;
}

function ErrorTable({
  responses,
}: {
  readonly responses: readonly (readonly [string, ResponseObject, boolean])[];
}): Child {
  const codes = responses.flatMap(([status, response]) =>
    [...response.description.matchAll(/^`(\w+)`:/gm)].map(([, code = ""]) => ({ status, code })),
  );
  if (codes.length === 0) return null;
  return (
    <>
      <h4>Errors</h4>
      <ul class="error-codes">
        {codes.map(({ status, code }) => (
          <li>
            {status} <code>{code}</code>
          </li>
        ))}
      </ul>
    </>
  );
}

function examplesOf(status: string, response: ResponseObject): readonly Child[] {
  return Object.entries(response.content ?? {}).flatMap(([type, { example }]) => {
    if (example === undefined) return [];
    const text = typeof example === "string" ? example : JSON.stringify(example, null, 2);
    return [<CodeExample caption={`Response ${status} (${type})`} text={text} />];
  });
}

function CodeExample({
  caption,
  text,
}: {
  readonly caption: string;
  readonly text: string;
}): Child {
  return (
    <figure>
      <figcaption>{caption}</figcaption>
      <pre tabindex={0}>
        <code>{text}</code>
      </pre>
    </figure>
  );
}
