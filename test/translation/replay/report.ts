// The results of a replay as text.

import { hasNoEquivalent, isAboutAccount, isAboutContent, isAboutMeaning } from "./refusals.ts";
import type { ReplyResult } from "./replay-replies.ts";
import type { PairResult } from "./replay-requests.ts";

export function requestReport(results: readonly PairResult[]): string {
  const lines = ["Requests that a provider accepted, sent to another model:", ""];
  for (const result of results) {
    const { refused, avoidable, content, account, absent, total } = refusalCounts(result);
    const possible = refused - account - absent;
    if (total === 0) continue;
    lines.push(
      `${result.api} → ${result.target}: ${result.answered} of ${total} answered, ${refused} refused (${percent(refused, total)}), ${avoidable} of them for a form or a hint, ${account} for an object in another account, ${absent} without an equivalent, ${possible} (${percent(possible, total)}) for what the provider could do; ${content} (${percent(content, total)}) without tools and storage`,
      ...byCount(result.refusals).map(([reason, count]) => `    ${count} ${reason}`),
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
  /** Refused although the provider could be asked for the same: for the form of the request, or a hint. */
  readonly avoidable: number;
  /** Refused for an object that is stored in the recorded account. */
  readonly account: number;
  /** Refused because the API of the model's provider has nothing for it. */
  readonly absent: number;
  /** Refused for anything but tools and storage of a provider. */
  readonly content: number;
}

export function refusalCounts({ api, target, answered, refusals }: PairResult): RefusalCounts {
  const isOwnApi = target.startsWith(`${api} `);
  let refused = 0;
  let avoidable = 0;
  let content = 0;
  let account = 0;
  let absent = 0;
  for (const [reason, count] of refusals) {
    refused += count;
    if (!isAboutMeaning(reason)) avoidable += count;
    if (isAboutContent(reason)) content += count;
    if (isAboutAccount(reason)) account += count;
    if (hasNoEquivalent(reason, isOwnApi)) absent += count;
  }
  return { total: answered + refused, refused, avoidable, account, absent, content };
}

function byCount(counts: ReadonlyMap<string, number>): readonly (readonly [string, number])[] {
  return [...counts].toSorted(([, left], [, right]) => right - left);
}

function percent(part: number, total: number): string {
  return `${((100 * part) / Math.max(1, total)).toFixed(1)}%`;
}
