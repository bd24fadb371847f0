import { WORLDS } from './worlds.ts'

/** Explores every world, or those whose name has a part of it, and prints the shortest trace to each violation. */
const [part = ''] = process.argv.slice(2)
for (const { breaks, explore, name } of WORLDS.filter((world) => world.name.includes(part))) {
  const startedAt = performance.now()
  const { isComplete, states, violation } = explore()
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1)
  const verdict = violation?.why ?? (isComplete ? 'ok' : 'too large')
  console.log(`${name}: ${states} states, ${seconds} s: ${verdict}`)
  for (const label of violation?.trace ?? []) console.log(`    ${label}`)
  if (violation?.why !== breaks || (breaks === undefined && !isComplete)) process.exitCode = 1
}
