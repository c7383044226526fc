// Parses multipart/form-data, in which clients send parameters too long for a URL. Thread: any
// (pure). Only names and values are used; files and other headers of a part are ignored.

const PARTS_MAX = 1_000

/** Values by name; null when the body is not a valid form. */
export function readMultipart(
  body: string,
  contentType: string,
): ReadonlyMap<string, string> | null {
  const found = /;\s*boundary=(?:"([^"]{1,100})"|([^;\s]{1,100}))/i.exec(contentType)
  const boundary = found?.[1] ?? found?.[2]
  if (boundary === undefined) return null
  // A line break is prepended, so that the first boundary is like the others.
  const parts = `\r\n${body}`.split(`\r\n--${boundary}`)
  if (parts.length > PARTS_MAX || !parts.at(-1)?.startsWith('--')) return null
  const values = new Map<string, string>()
  for (const part of parts.slice(1, -1)) {
    const end = part.indexOf('\r\n\r\n')
    const name = /^content-disposition:[^\r\n]*;\s*name="([^"]*)"/im.exec(part.slice(0, end))?.[1]
    if (end < 0 || name === undefined || values.has(name)) return null
    values.set(name, part.slice(end + 4))
  }
  return values
}
