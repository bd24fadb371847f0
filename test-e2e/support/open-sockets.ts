import { readFileSync } from 'node:fs'

const ESTABLISHED = '01'

/**
 * How many connections to a port of this machine their clients have open. A proxy that holds data back does not hear
 * that its client has left, so it counts connections that are over. Undefined where Linux does not tell.
 */
export function openSockets(port: number): number | undefined {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  try {
    const rows = ['tcp', 'tcp6'].flatMap((name) =>
      readFileSync(`/proc/net/${name}`, 'utf8').split('\n'),
    )
    return rows
      .map((row) => row.trim().split(/\s+/))
      .filter(([, , remote, state]) => remote?.endsWith(suffix) && state === ESTABLISHED).length
  } catch {
    return undefined
  }
}
