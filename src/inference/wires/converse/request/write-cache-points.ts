import type { CacheBreakpoint } from "../../../canonical/parts.ts";
import type { Loss } from "../../../canonical/loss.ts";
import type { JsonObject } from "../../../../base/json.ts";
import type { Target } from "../../../canonical/wire.ts";
import { familyOf } from "./model-family.ts";

export interface CacheWriteContext {
  readonly target: Target;
  readonly losses: Loss[];
  readonly location?: "tools" | undefined;
}

/** A mark is a block of its own after the thing. Claude takes it everywhere, Nova not among tools; others cache by themselves or not at all. */
export function writeCachePoint(
  cache: CacheBreakpoint | undefined,
  at: string,
  { target, losses, location }: CacheWriteContext,
): JsonObject | undefined {
  if (cache === undefined) return undefined;
  const family = familyOf(target);
  const path = at === "" ? "cache_control" : `${at}.cache_control`;
  if (family !== "claude" && (family !== "nova" || location === "tools")) {
    losses.push({ path, reason: "This model has no such cache mark.", tolerated: true });
    return undefined;
  }
  const { ttl } = cache;
  const isSupportedTtl = ttl === undefined || ttl === "5m" || (ttl === "1h" && family === "claude");
  if (!isSupportedTtl)
    losses.push({
      path: `${path}.ttl`,
      reason: `This model keeps no cache for ${ttl}; its default holds.`,
      tolerated: true,
    });
  return { cachePoint: { type: "default", ttl: isSupportedTtl ? ttl : undefined } };
}

/** A mark may not stand right behind a document or a video: it goes before them, or where nothing is before, away. */
export function moveCachePointsBeforeMedia(
  blocks: readonly JsonObject[],
  path: string,
  losses: Loss[],
): readonly JsonObject[] {
  const moved: JsonObject[] = [];
  for (const block of blocks) {
    const media = block["cachePoint"] === undefined ? 0 : countTrailingMedia(moved);
    if (media === 0) {
      moved.push(block);
      continue;
    }
    losses.push({
      path: `${path}.cache_control`,
      reason: "At this provider a cache mark goes before a document or video, not behind it.",
      tolerated: true,
    });
    const at = moved.length - media;
    if (at > 0 && moved[at - 1]?.["cachePoint"] === undefined) moved.splice(at, 0, block);
  }
  return moved;
}

function countTrailingMedia(blocks: readonly JsonObject[]): number {
  const last = blocks.findLastIndex((block) => !("document" in block) && !("video" in block));
  return blocks.length - 1 - last;
}
