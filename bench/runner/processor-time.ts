import { readdirSync, readFileSync } from 'node:fs'
import type { Pool } from 'pg'

/** Processor time, microseconds. */
export interface ProcessorTime {
  readonly user: number
  readonly system: number
  /** Of all backends of the server. */
  readonly server: number
}

export interface ProcessorMeter {
  read(): ProcessorTime
}

/** One tick of /proc is a hundredth of a second on every Linux that Node supports. */
const TICK_US = 10_000

/** Reads the processor time of this process and of a server on this machine. Without /proc the server counts as 0. */
export async function processorMeter(pool: Pool): Promise<ProcessorMeter> {
  const { rows } = await pool.query('select pg_backend_pid() as pid')
  const postmaster = statOf(rows[0].pid)?.parent
  return {
    read: () => ({ ...process.cpuUsage(), server: serverTime(postmaster) }),
  }
}

/** Times of children that have ended are in those of the postmaster. */
function serverTime(postmaster: number | undefined): number {
  if (postmaster === undefined) return 0
  const own = statOf(postmaster)
  const backends = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => statOf(Number(name)))
    .filter((stat) => stat?.parent === postmaster)
  const ticks = [...backends.map((stat) => stat?.ticks ?? 0), own?.ticks ?? 0, own?.childTicks ?? 0]
  return ticks.reduce((sum, each) => sum + each, 0) * TICK_US
}

interface Stat {
  readonly parent: number
  readonly ticks: number
  readonly childTicks: number
}

function statOf(pid: number): Stat | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // After the command, which may hold spaces and parentheses: state, parent, … See proc_pid_stat(5).
    const fields = text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number)
    const at = (field: number): number => fields[field - 3] ?? 0
    return { parent: at(4), ticks: at(14) + at(15), childTicks: at(16) + at(17) }
  } catch {
    return undefined
  }
}
