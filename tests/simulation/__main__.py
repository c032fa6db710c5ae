from __future__ import annotations
import sys, time, traceback
from tests.simulation.run import run
from tests.simulation.seeds import plan_of
t=time.process_time(); fails=0; com=0
n0,n1=int(sys.argv[2]),int(sys.argv[3])
for s in range(n0,n1):
    o=run(plan_of(s,sys.argv[1])); com+=o.commits
    if o.failure is not None:
        fails+=1
        print("SEED",s,type(o.failure).__name__,str(o.failure)[:500])
        if "-v" in sys.argv:
            print("\n".join(o.history)); traceback.print_exception(o.failure)
    elif "-v" in sys.argv: print("\n".join(o.history))
d=time.process_time()-t
print(n1-n0,"seeds",fails,"failed",com,"commits",(n1-n0)/d,"per s", o.steps)
