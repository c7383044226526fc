// Names the environment variable of a configuration key.

/** `rpc.bodyBytesMax` is SLUICE_RPC__BODY_BYTES_MAX. */
export function variableOf(key: string): string {
  const words = key.split('.').map((word) => word.replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2'))
  return `SLUICE_${words.join('__').toUpperCase()}`
}
