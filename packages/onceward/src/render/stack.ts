import { counted } from './units.ts'

const FRAME = /^\s+at /
/** Frames in which no reader of an error has anything to repair. */
const OURS = /node_modules\/(?:@onceward|onceward)\/|\/packages\/[\w-]+\/(?:src|dist)\/|\bnode:/

/** An error with the frames of onceward and of Node folded into their number. A stack of nothing else stays. */
export function foldedStack(text: string): string {
  const lines = text.split('\n')
  const frames = lines.filter((line) => FRAME.test(line))
  const ours = frames.filter((line) => OURS.test(line)).length
  if (ours === 0 || ours === frames.length) return text
  const kept = lines.filter((line) => !(FRAME.test(line) && OURS.test(line)))
  return [...kept, `    … and ${counted(ours, 'frame')} of onceward and Node`].join('\n')
}
