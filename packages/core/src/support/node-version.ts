const OLDEST = 22

const { node } = globalThis.process?.versions ?? {}

// Imported first by every entry, and imports nothing: what follows calls functions that an older Node lacks.
if (node !== undefined && Number.parseInt(node, 10) < OLDEST) {
  throw new Error(
    `onceward needs Node ${OLDEST} or newer, and this is Node ${node}: run it with a newer Node.`,
  )
}
