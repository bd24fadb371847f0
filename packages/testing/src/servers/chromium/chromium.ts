import type { Need } from '../run/tools.ts'
import { toolPaths } from '../run/tools.ts'

const TOOLS: Need = {
  service: 'chromium',
  tools: [{ command: 'chromium', package: 'chromium' }],
}

/** Path of a Chromium for tests of web pages: `ONCEWARD_CHROMIUM`, or `chromium` on PATH, which is installed on Debian. */
export async function chromium(): Promise<string> {
  const { ONCEWARD_CHROMIUM: own } = process.env
  if (own) return own
  const { chromium: path = '' } = await toolPaths(TOOLS)
  return path
}
