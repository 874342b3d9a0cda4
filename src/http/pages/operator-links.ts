// The links of the operator, such as the terms and the support address, for footers and error pages.

import type { NavLink } from "./app-frame.tsx";

export interface OperatorLinks {
  /** An email address or URL. */
  readonly contact: string | undefined;
  readonly termsUrl: string | undefined;
  readonly privacyUrl: string | undefined;
  readonly dpaUrl: string | undefined;
  readonly subprocessorsUrl: string | undefined;
}

export function operatorLinks(operator: OperatorLinks): readonly NavLink[] {
  const links = [
    ["Support", operator.contact && contactHref(operator.contact)],
    ["Terms", operator.termsUrl],
    ["Privacy", operator.privacyUrl],
    ["Data processing agreement", operator.dpaUrl],
    ["Sub-processors", operator.subprocessorsUrl],
  ] as const;
  return links.flatMap(([label, href]) => (href === undefined ? [] : [{ label, href }]));
}

export function contactHref(contact: string): string {
  return /^https?:\/\//.test(contact) ? contact : `mailto:${contact}`;
}
