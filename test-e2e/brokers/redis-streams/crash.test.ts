import { describeCrashes } from '../../crash/suite.ts'

describeCrashes('redis-streams')
