import { readdirSync, readFileSync } from 'node:fs'

/** All descendants of a process; empty where there is no /proc. */
export function descendants(pid: number): number[] {
  const parents = processIds().flatMap((id) => {
    const parent = statFields(id)?.[1]
    return parent === undefined ? [] : [{ id, parent: Number(parent) }]
  })
  const found = [pid]
  for (const known of found) {
    found.push(...parents.filter(({ parent }) => parent === known).map(({ id }) => id))
  }
  return found.slice(1)
}

/** Whether the process exists and is not a zombie, which a parent that never waits leaves behind. */
export function isRunning(pid: number): boolean {
  const state = statFields(pid)?.[0]
  if (state !== undefined) return state !== 'Z' && state !== 'X'
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

function processIds(): number[] {
  try {
    return readdirSync('/proc').map(Number).filter(Number.isInteger)
  } catch {
    return []
  }
}

/** Fields of /proc/<pid>/stat after the command name (which may hold spaces): state, parent, … */
function statFields(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  } catch {
    return undefined
  }
}
