import { existsSync } from 'node:fs'
import { pinnedNode, run, tool } from './process.mjs'

// Sources that do not compile must not make an installation fail: `npm test` reports them.
if (existsSync(pinnedNode)) await run(tool('tsc'), ['-b'], { quiet: true })
