// Reads pixels of screenshots: a chart is tested by its colours, not by a picture of another machine.
import { PNG } from 'pngjs'

export type Rgb = readonly [red: number, green: number, blue: number]

/** Colours of the bands in the light theme. */
export const bandColours: Readonly<Record<'excellent' | 'bottlenecks' | 'sequential', Rgb>> = {
  excellent: [0x00, 0x72, 0xb2],
  bottlenecks: [0x8a, 0x5a, 0x00],
  sequential: [0x8f, 0x12, 0x30],
}

/** How many pixels have this colour, give or take what smoothing does at edges. */
export function near(screenshot: Buffer, colour: Rgb, tolerance = 48): number {
  const { data } = PNG.sync.read(screenshot)
  let found = 0
  for (let at = 0; at < data.length; at += 4)
    if (colour.every((value, channel) => Math.abs(data[at + channel]! - value) <= tolerance))
      found++
  return found
}
