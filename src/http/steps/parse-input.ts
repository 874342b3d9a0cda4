// Parses path, query and body of a request with the schemas of its route.

import type { z } from "zod";
import { requireSameOriginForm } from "../guards/session-guard.ts";
import type { RequestContext, Step } from "../request-context.ts";
import {
  decodeForm,
  decodeJson,
  multipartRequired,
  requireJsonContentType,
} from "../request/body-decoder.ts";
import { withCheckedBody } from "../request/body-hash.ts";
import { isMultipart } from "../request/multipart-body.ts";
import { parseQuery } from "../request/request-target.ts";
import { type InputLocation, parseWithSchema } from "../request/validate.ts";
import type { Route, StepFilter } from "../route.ts";
import type { ClientIpOf } from "./receive-body.ts";

type DecodeBody = (context: RequestContext, route: Route) => unknown;

/** For the API: the body is JSON or a form, as the route declares. */
export function parseInput(clientIpOf: ClientIpOf, allowsStep: StepFilter): Step {
  return parseWith({ clientIpOf, allowsStep }, ({ request, body: { text, form } }, route) => {
    const { body, bodyType, multipart } = route;
    if (multipart === "required" && form === undefined) throw multipartRequired(request);
    if (multipart === "streamed" && !isMultipart(request.headers)) throw multipartRequired(request);
    if (bodyType === "raw" && form === undefined) requireJsonContentType(request);
    if (body === undefined || bodyType === "raw" || multipart === "streamed") return undefined;
    return bodyType === "form" ? decodeForm(request, text) : decodeJson(request, text);
  });
}

/** For pages: the body is a form that one of our own pages must have sent, with the token of the session if there is one. */
export function parsePageForm(clientIpOf: ClientIpOf, baseUrl: string): Step {
  return parseWith({ clientIpOf }, ({ request, body, caller }) =>
    requireSameOriginForm(decodeForm(request, body.text), request.headers, caller.user, baseUrl),
  );
}

interface ParseDeps {
  readonly clientIpOf: ClientIpOf;
  readonly allowsStep?: StepFilter;
}

function parseWith({ clientIpOf, allowsStep }: ParseDeps, decodeBody: DecodeBody): Step {
  return (context, route) => {
    const { request, peer, query, caller, body } = context;
    const isRaw = route.bodyType === "raw";
    const isUnparsed = isRaw || route.multipart === "streamed";
    context.input = {
      params: parseOptional(route.params, context.match?.params, "path"),
      query:
        route.query === undefined && query === ""
          ? undefined
          : parseOptional(route.query, parseQuery(query), "query"),
      body: parseOptional(isUnparsed ? undefined : route.body, decodeBody(context, route), "body"),
      caller: caller.key ?? caller.user,
      now: context.now,
      requestId: context.requestId,
      clientIp: isRaw ? "" : clientIpOf(peer.address(), request.headers.get("x-forwarded-for")),
      headers: request.headers,
      request:
        route.multipart === "streamed" && caller.checkBody !== undefined
          ? withCheckedBody(request, caller.checkBody)
          : request,
      bodyText: body.text,
      form: body.form,
      formBytes: body.formBytes,
      // A signature covers a handshake, and no message that follows it.
      acceptWebSocket: caller.checkBody === undefined ? peer.acceptWebSocket : undefined,
      allowsStep,
    };
    return undefined;
  };
}

function parseOptional(
  schema: z.ZodType | undefined,
  value: unknown,
  location: InputLocation,
): unknown {
  return schema === undefined ? undefined : parseWithSchema(schema, value, location);
}
