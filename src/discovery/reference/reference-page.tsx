/** @jsxImportSource hono/jsx */
// /docs: the API reference, rendered from the OpenAPI description.

import type { Child } from "hono/jsx";
import { renderPage } from "../../http/pages/layout.tsx";
import { SITE_LINKS } from "../home-page.tsx";
import { type OpenApiDocument, listOperations } from "../openapi/openapi-types.ts";
import { renderInline, Markdown } from "../markdown.tsx";
import { Endpoint, FieldTable } from "./reference-endpoint.tsx";
import { schemaRows } from "./schema-rows.ts";

type Operations = ReturnType<typeof listOperations>;

export function referencePage(document: OpenApiDocument): string {
  const operations = listOperations(document);
  return renderPage({
    title: `API reference · ${document.info.title}`,
    description: document.info.summary,
    nav: SITE_LINKS,
    path: "/docs",
    aside: <TableOfContents document={document} operations={operations} />,
    main: <EndpointSections document={document} operations={operations} />,
    footer: (
      <p>
        {document.info.title} {document.info.version}. Generated from the{" "}
        <a href="/openapi.yaml">OpenAPI description</a>.
      </p>
    ),
  });
}

interface ReferenceProps {
  readonly document: OpenApiDocument;
  readonly operations: Operations;
}

function TableOfContents({ document, operations }: ReferenceProps): Child {
  return (
    <details class="contents">
      <summary>Contents</summary>
      <nav aria-label="Contents">
        <ul>
          <li>
            <a href="#authentication">Authentication</a>
          </li>
        </ul>
        {document.tags.map((tag) => (
          <>
            <p class="contents-group">{tag.name}</p>
            <ul>
              {operationsByTag(operations, tag.name).map(({ operation }) => (
                <li>
                  <a href={`#${operation.operationId}`}>{renderInline(operation.summary)}</a>
                </li>
              ))}
            </ul>
          </>
        ))}
        <p class="contents-group">Objects</p>
        <ul>
          {Object.keys(document.components.schemas).map((name) => (
            <li>
              <a href={`#record-${name}`}>{name}</a>
            </li>
          ))}
        </ul>
      </nav>
    </details>
  );
}

function EndpointSections({ document, operations }: ReferenceProps): Child {
  return (
    <>
      <h1>API reference</h1>
      <p class="intro">{document.info.summary}</p>
      <p>
        The base URL is <code>{document.servers[0]?.url}</code>.
      </p>
      <Markdown text={document.info.description} />
      <Authentication document={document} />
      {document.tags.map((tag) => (
        <section aria-labelledby={tagId(tag.name)}>
          <h2 id={tagId(tag.name)}>{tag.name}</h2>
          <p class="tagline">{renderInline(tag.description)}</p>
          {operationsByTag(operations, tag.name).map((each) => (
            <Endpoint {...each} document={document} />
          ))}
        </section>
      ))}
      <SchemaSections document={document} />
    </>
  );
}

function Authentication({ document }: Pick<ReferenceProps, "document">): Child {
  return (
    <section aria-labelledby="authentication">
      <h2 id="authentication">Authentication</h2>
      <p>Send your API key in one of these headers. Endpoints that need no key say so.</p>
      <ul>
        {Object.values(document.components.securitySchemes).map((scheme) => (
          <li>{renderInline(scheme["description"] ?? "")}</li>
        ))}
      </ul>
    </section>
  );
}

function SchemaSections({ document }: Pick<ReferenceProps, "document">): Child {
  const { schemas } = document.components;
  return (
    <section aria-labelledby="records">
      <h2 id="records">Objects</h2>
      {Object.entries(schemas).map(([name, schema]) => (
        <article class="record" id={`record-${name}`} aria-labelledby={`record-${name}-title`}>
          <h3 id={`record-${name}-title`}>
            <a class="anchor" href={`#record-${name}`}>
              {name}
            </a>
          </h3>
          {schema.description === undefined ? null : <Markdown text={schema.description} />}
          <FieldTable caption={`Fields of ${name}`} rows={schemaRows(schema, schemas)} />
        </article>
      ))}
    </section>
  );
}

function operationsByTag(operations: Operations, tag: string): Operations {
  return operations.filter(({ operation }) => operation.tags.includes(tag));
}

function tagId(tag: string): string {
  return `chapter-${tag.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-")}`;
}
