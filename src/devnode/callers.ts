// Who may call the devnode. Thread: main of the devnode.
// Beside a gateway it serves its parent alone, which sends the secret of this start. A node of its
// own serves whoever reaches its port; a web page reaches it too, under its own name or under one
// that it points here, and that caller gets no cheat codes.
import { timingSafeEqual } from 'node:crypto'
import { isLoopback } from '../base/cidr.ts'

/** The check of `x-token`; without a secret everybody passes. */
export function secretCheck(secret: string | null): (sent: string | undefined) => boolean {
  if (secret === null) return () => true
  const expected = Buffer.from(secret)
  return (sent = '') => {
    const bytes = Buffer.from(sent)
    return bytes.length === expected.length && timingSafeEqual(bytes, expected)
  }
}

/** Whether a request names this machine: in Host, and in Origin where a browser sends one. */
export function isLocalCaller(head: { readonly host: string; readonly origin: string }): boolean {
  const { host, origin } = head
  return isLocalUrl(`http://${host}`) && (origin === '' || isLocalUrl(origin))
}

function isLocalUrl(text: string): boolean {
  return URL.canParse(text) && isLoopback(new URL(text).hostname)
}
