import type { CacheMark, JsonObject, Loss } from "../../canonical.ts";
import type { Target } from "../../canonical-wire.ts";
import { familyOf } from "./model-family.ts";

export interface CacheWriting {
  readonly target: Target;
  readonly losses: Loss[];
  readonly place?: "tools" | undefined;
}

/** A mark is a block of its own after the thing. Claude takes it everywhere, Nova not among tools; others cache by themselves or not at all. */
export function writeCache(
  cache: CacheMark | undefined,
  at: string,
  { target, losses, place }: CacheWriting,
): JsonObject | undefined {
  if (cache === undefined) return undefined;
  const family = familyOf(target);
  const path = at === "" ? "cache_control" : `${at}.cache_control`;
  if (family !== "claude" && (family !== "nova" || place === "tools")) {
    losses.push({ path, why: "This model has no such cache mark.", byRule: true });
    return undefined;
  }
  const { ttl } = cache;
  const known = ttl === undefined || ttl === "5m" || (ttl === "1h" && family === "claude");
  if (!known)
    losses.push({
      path: `${path}.ttl`,
      why: `This model keeps no cache for ${ttl}; its default holds.`,
      byRule: true,
    });
  return { cachePoint: { type: "default", ttl: known ? ttl : undefined } };
}

/** A mark may not stand right behind a document or a video: it goes before them, or where nothing is before, away. */
export function settleMarks(
  blocks: readonly JsonObject[],
  path: string,
  losses: Loss[],
): readonly JsonObject[] {
  const settled: JsonObject[] = [];
  for (const block of blocks) {
    const media = block["cachePoint"] === undefined ? 0 : trailingMedia(settled);
    if (media === 0) {
      settled.push(block);
      continue;
    }
    losses.push({
      path: `${path}.cache_control`,
      why: "At this provider a cache mark goes before a document or video, not behind it.",
      byRule: true,
    });
    const at = settled.length - media;
    if (at > 0 && settled[at - 1]?.["cachePoint"] === undefined) settled.splice(at, 0, block);
  }
  return settled;
}

function trailingMedia(blocks: readonly JsonObject[]): number {
  const last = blocks.findLastIndex((block) => !("document" in block) && !("video" in block));
  return blocks.length - 1 - last;
}
