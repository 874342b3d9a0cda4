// The results of a replay as text.

import { hasNoEquivalent, isAboutContent, isAboutMeaning } from "./refusals.ts";
import type { ReplyResult } from "./replay-replies.ts";
import type { PairResult } from "./replay-requests.ts";

export function requestReport(results: readonly PairResult[]): string {
  const lines = ["Requests that a provider accepted, sent to another model:", ""];
  for (const result of results) {
    const { refused, tools, objects, avoidable, content, absent, total } = refusalCounts(result);
    if (total === 0) continue;
    const rest = refused - objects;
    const own = result.ownKeyAnswered;
    lines.push(
      `${result.api} → ${result.target}: ${result.answered} of ${total} answered, ${refused} refused (${percent(refused, total)})`,
      `    tools that run at one provider: ${tools}${
        tools === 0
          ? ""
          : ` (${byCount(result.tools)
              .map(([name, times]) => `${times} ${name}`)
              .join(", ")})`
      }; without them ${refused - tools} of ${total} refused (${percent(refused - tools, total)})`,
      `    objects of the recorded account: ${objects}${own === 0 ? "" : `, of which ${own} are answered with an own provider key`}`,
      ...byCount(result.objectRefusals).map(([reason, count]) => `        ${count} ${reason}`),
      `    without these: ${rest} of ${total - objects} refused (${percent(rest, total - objects)}): ${absent} without an equivalent, ${rest - absent} for what the provider could do, ${avoidable} for a form or a hint; ${content} are not about tools`,
      ...byCount(result.refusals).map(([reason, count]) => `        ${count} ${reason}`),
      ...byCount(result.dropped).map(([path, count]) => `    ${count} dropped ${path}`),
    );
  }
  return lines.join("\n");
}

export function replyReport(results: readonly ReplyResult[]): string {
  const lines = ["Recorded replies over each API:", ""];
  for (const result of results) {
    const failed = [...result.failures.values()].reduce((sum, count) => sum + count, 0);
    const unchanged = result.api === result.wire ? `, ${result.unchanged} unchanged` : "";
    lines.push(
      `${result.wire} → ${result.api}: ${result.answered} of ${result.answered + failed} answered${unchanged}, cost equal in ${result.equalCosts} of ${result.costs}`,
      ...byCount(result.failures).map(([reason, count]) => `    ${count} ${reason}`),
    );
  }
  return lines.join("\n");
}

export interface RefusalCounts {
  readonly total: number;
  readonly refused: number;
  /** Of these: refused for a tool that runs at one provider. */
  readonly tools: number;
  /** Refused requests that name an object of the recorded account, such as a file: no other account has it. */
  readonly objects: number;
  /** Of the others: refused for the form of the request, or a hint, although the provider could be asked for the same. */
  readonly avoidable: number;
  /** Of the others: refused because the API of the model's provider has nothing for it. */
  readonly absent: number;
  /** Of the others: refused for anything but tools and storage of a provider. */
  readonly content: number;
}

export function refusalCounts(result: PairResult): RefusalCounts {
  const { api, target, answered, refusals, objectRefusals } = result;
  const isSameApi = target.startsWith(`${api} `);
  const objects = sumOf(objectRefusals);
  const rest = sumOf(refusals);
  return {
    total: answered + objects + rest,
    refused: objects + rest,
    tools: sumOf(result.tools),
    objects,
    avoidable: sumOf(refusals, (reason) => !isAboutMeaning(reason)),
    absent: sumOf(refusals, (reason) => hasNoEquivalent(reason, isSameApi)),
    content: sumOf(refusals, isAboutContent),
  };
}

function sumOf(
  counts: ReadonlyMap<string, number>,
  accept: (reason: string) => boolean = () => true,
): number {
  return [...counts].reduce((sum, [reason, count]) => sum + (accept(reason) ? count : 0), 0);
}

function byCount(counts: ReadonlyMap<string, number>): readonly (readonly [string, number])[] {
  return [...counts].toSorted(([, left], [, right]) => right - left);
}

function percent(part: number, total: number): string {
  return `${((100 * part) / Math.max(1, total)).toFixed(1)}%`;
}
