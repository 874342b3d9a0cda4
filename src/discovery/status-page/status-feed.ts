// The incidents as an Atom feed (RFC 4287): an entry for each update.

import type { StatusSnapshot } from "../../status/availability.ts";
import { PRODUCT_NAME } from "../discovery-settings.ts";
import { FEED_PATH, STATE_LABELS } from "./status-labels.ts";

export function statusFeed({ at, incidents }: StatusSnapshot, baseUrl: string): string {
  const updates = incidents
    .flatMap(({ id: incidentId, title, updates: ofIncident }) =>
      ofIncident.map((update) => ({ incidentId, title, ...update })),
    )
    .sort((one, other) => other.at - one.at);
  const entries = updates.map(({ id, incidentId, title, state, message, at: updated }) =>
    [
      "<entry>",
      `<id>${baseUrl}/status#${id}</id>`,
      `<title>${escapeXml(`${STATE_LABELS[state]}: ${title}`)}</title>`,
      `<updated>${new Date(updated).toISOString()}</updated>`,
      `<link href="${escapeXml(`${baseUrl}/status#${incidentId}`)}"/>`,
      `<content type="text">${escapeXml(message)}</content>`,
      "</entry>",
    ].join(""),
  );
  return [
    '<?xml version="1.0" encoding="utf-8"?>',
    '<feed xmlns="http://www.w3.org/2005/Atom">',
    `<id>${escapeXml(`${baseUrl}/status`)}</id>`,
    `<title>${PRODUCT_NAME} status</title>`,
    `<author><name>${PRODUCT_NAME}</name></author>`,
    `<updated>${new Date(updates[0]?.at ?? at).toISOString()}</updated>`,
    `<link rel="self" href="${escapeXml(baseUrl + FEED_PATH)}"/>`,
    `<link href="${escapeXml(`${baseUrl}/status`)}"/>`,
    ...entries,
    "</feed>\n",
  ].join("\n");
}

const XML_ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
};

function escapeXml(text: string): string {
  return text.replaceAll(/[&<>"]/g, (character) => XML_ENTITIES[character] ?? character);
}
