// The media type of a Content-Type header. Thread: any. Pure.

/** The spellings that most clients use. */
const plainTypes: ReadonlySet<string> = new Set([
  'application/json',
  'application/octet-stream',
  'text/plain',
])

/** The media type without its parameters, in lower case. */
export function mediaTypeOf(contentType: string): string {
  if (plainTypes.has(contentType)) return contentType
  return contentType.split(';', 1)[0]!.trim().toLowerCase()
}
