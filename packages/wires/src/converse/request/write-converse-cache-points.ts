import type { Loss } from "../../canonical/canonical-losses.ts";
import type { CacheBreakpoint } from "../../canonical/canonical-parts.ts";
import type { Target } from "../../canonical/wire-interfaces.ts";
import type { JsonObject } from "../../json-fields.ts";
import { familyOf } from "./converse-model-family.ts";

export interface CacheWriteContext {
  readonly target: Target;
  readonly losses: Loss[];
  readonly location?: "tools" | undefined;
}

/**
 * A cache point is a separate block after the content that it ends. Claude accepts it everywhere, Nova not among tools;
 * other models cache automatically or not at all.
 */
export function writeCachePoint(
  cache: CacheBreakpoint | undefined,
  at: string,
  { target, losses, location }: CacheWriteContext,
): JsonObject | undefined {
  if (cache === undefined) return undefined;
  const family = familyOf(target);
  const path = at === "" ? "cache_control" : `${at}.cache_control`;
  if (family !== "claude" && (family !== "nova" || location === "tools")) {
    losses.push({
      path,
      reason: "This model does not support this cache breakpoint.",
      tolerated: true,
    });
    return undefined;
  }
  const { ttl } = cache;
  const isSupportedTtl = ttl === undefined || ttl === "5m" || (ttl === "1h" && family === "claude");
  if (!isSupportedTtl)
    losses.push({
      path: `${path}.ttl`,
      reason: `This model does not support a cache TTL of ${ttl}; its default applies.`,
      tolerated: true,
    });
  return { cachePoint: { type: "default", ttl: isSupportedTtl ? ttl : undefined } };
}

/**
 * Converse rejects a cache point directly after a document or video: it moves before them, or is removed if nothing comes
 * before.
 */
export function moveCachePointsBeforeMedia(
  blocks: readonly JsonObject[],
  path: string,
  losses: Loss[],
): readonly JsonObject[] {
  const moved: JsonObject[] = [];
  let trailingMedia = 0;
  for (const block of blocks) {
    if (block["cachePoint"] === undefined || trailingMedia === 0) {
      moved.push(block);
      trailingMedia = "document" in block || "video" in block ? trailingMedia + 1 : 0;
      continue;
    }
    losses.push({
      path: `${path}.cache_control`,
      reason:
        "This provider accepts a cache breakpoint only before a document or video, not after it.",
      tolerated: true,
    });
    const at = moved.length - trailingMedia;
    if (at > 0 && moved[at - 1]?.["cachePoint"] === undefined) moved.splice(at, 0, block);
  }
  return moved;
}
