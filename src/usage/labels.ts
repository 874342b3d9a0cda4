// Labels of calls: up to five `name=value` pairs from the header `x-postern-labels`, to filter and group usage by.

import { invalid } from "../base/fault.ts";

export const LABELS_HEADER = "x-postern-labels";
const LABELS_MAX = 5;
const HEADER_LENGTH_MAX = 600;
const LABEL = /^([a-z][a-z0-9_.-]{0,31})=([A-Za-z0-9][A-Za-z0-9_.:/@+-]{0,63})$/;
const NO_LABELS: readonly string[] = [];

/** Parses `team=search, job=nightly`; sorted by name. Throws for invalid labels. */
export function parseLabels(header: string | null): readonly string[] {
  if (header === null || header === "") return NO_LABELS;
  if (header.length > HEADER_LENGTH_MAX)
    throw invalidLabels(`is longer than ${HEADER_LENGTH_MAX} characters`);
  const labels = header.split(",").map((label) => label.trim());
  if (labels.length > LABELS_MAX) throw invalidLabels(`has more than ${LABELS_MAX} labels`);
  const names = new Set<string>();
  for (const label of labels) {
    const name = LABEL.exec(label)?.[1];
    if (name === undefined) throw invalidLabels(`has the invalid label "${label.slice(0, 100)}"`);
    if (names.has(name)) throw invalidLabels(`has the name "${name}" twice`);
    names.add(name);
  }
  return labels.sort();
}

function invalidLabels(problem: string): Error {
  return invalid(
    LABELS_HEADER,
    `The header \`${LABELS_HEADER}\` ${problem}. Send up to ${LABELS_MAX} pairs such as \`team=search, job=nightly\`: names of lowercase letters, digits and \`_.-\`, values of up to 64 letters, digits and \`_.:/@+-\`.`,
  );
}

/** Commas on both sides of every label, so that `like '%,team=a,%'` finds exactly one label. */
export function storedLabels(labels: readonly string[]): string {
  return `,${labels.join(",")},`;
}

export function parseStoredLabels(stored: string): readonly string[] {
  return stored.slice(1, -1).split(",");
}
