// The media type of a Content-Type header.

/** The spellings that most clients use. */
const plainTypes = ['application/json', 'application/octet-stream', 'text/plain'] as const

/** The media type without its parameters, in lower case. */
export function mediaTypeOf(contentType: string): string {
  for (const type of plainTypes) if (contentType === type) return type
  return contentType.split(';', 1)[0]!.trim().toLowerCase()
}
