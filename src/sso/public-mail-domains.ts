// Domains whose email addresses belong to their users and not to one organization. A workspace cannot have them, even if
// it could write their DNS records.

const PUBLIC_MAIL_DOMAINS: ReadonlySet<string> = new Set(
  `aol.com bluewin.ch comcast.net duck.com fastmail.com free.fr gmail.com gmx.at gmx.ch gmx.com gmx.de gmx.net
   googlemail.com hey.com hotmail.co.uk hotmail.com hotmail.de hotmail.fr icloud.com laposte.net live.com
   mac.com mail.com mail.ru mailbox.org me.com msn.com naver.com orange.fr outlook.com outlook.de pm.me
   posteo.de proton.me protonmail.com qq.com rediffmail.com rocketmail.com t-online.de tutanota.com tuta.io
   verizon.net web.de yahoo.co.jp yahoo.co.uk yahoo.com yahoo.de yahoo.fr yandex.com yandex.ru ymail.com
   zoho.com 126.com 163.com`.split(/\s+/),
);

export function isPublicMailDomain(domain: string): boolean {
  return PUBLIC_MAIL_DOMAINS.has(domain);
}
